"""A running site goes over to its new key when the server lets that in, and not before."""

import time

from tests.needs import needs

needs("flwr")

from fedse.federation.home import Home
from fedse.federation.rotation import begin_rotation, next_key, next_presence
from fedse.flower.ops.site_keys import SiteKeys
from tests.federation.scene import Scene


def chosen(keys: SiteKeys, home: Home) -> str:
    key, presence = keys.choose()
    own = key == home.key
    assert own or presence == next_presence(home.path, key).name
    assert (presence == "node.id") is own
    return "own" if own else "next"


def let_in(home: Home, state: str = "") -> None:
    new = next_key(home.path)
    assert new
    next_presence(home.path, new).write_text(f"7{state}\n")


def test_without_a_rotation_it_is_always_the_own_key(scene: Scene):
    home = scene.join()
    keys = SiteKeys(home, lambda line: None, clock=time.time)
    assert [chosen(keys, home) for _ in range(3)] == ["own"] * 3


def test_while_it_waits_both_keys_are_tried_in_turn(scene: Scene):
    home = scene.join()
    begin_rotation(home)
    keys = SiteKeys(home, lambda line: None, clock=time.time)
    assert [chosen(keys, home) for _ in range(4)] == ["own", "next", "own", "next"]


def test_once_it_is_let_in_the_new_key_is_the_own_one(scene: Scene):
    home, told = scene.join(), list[str]()
    old = home.key.private.read_bytes()
    keys = SiteKeys(home, told.append, clock=time.time)
    assert chosen(keys, home) == "own"
    begin_rotation(home)
    new = (home.path / "next-key" / "node.key").read_bytes()
    assert chosen(keys, home) == "next"
    keys.look()
    assert home.key.private.read_bytes() == old
    let_in(home)
    for _ in range(3):
        keys.look()
    assert home.key.private.read_bytes() == new != old
    assert [chosen(keys, home) for _ in range(2)] == ["own", "own"]
    assert told == ["the coordinator has accepted the new key; the old one is gone"]


def test_a_site_that_was_killed_after_it_was_let_in_begins_with_the_new_key(scene: Scene):
    home = scene.join()
    begin_rotation(home)
    new = (home.path / "next-key" / "node.key").read_bytes()
    let_in(home, " left")
    assert chosen(SiteKeys(home, lambda line: None, clock=time.time), home) == "own"
    assert home.key.private.read_bytes() == new
