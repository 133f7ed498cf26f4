"""A site's key is replaced by a request that both keys sign; any other request changes nothing."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from fedse.errors import ConfigError
from fedse.federation import renewal, rotation
from fedse.federation.enrolment import with_revocation
from fedse.federation.folder import revoke
from fedse.federation.home import Home
from fedse.federation.keys import make_node_key
from fedse.federation.rotation import (
    RotationRequest,
    begin_rotation,
    finish_rotation,
    forget_presences,
    next_key,
    next_presence,
    read_either,
    with_rotation,
)
from fedse.store.files import write_durably
from tests.federation.scene import Scene


@pytest.fixture
def home(scene: Scene) -> Home:
    """Of alpha, which is enrolled."""
    made = scene.join()
    scene.enrol(scene.request(made))
    return made


def public(home: Home) -> str:
    return home.key.public.read_text().strip()


def let_in(home: Home) -> None:
    """As the node does when the server has let it in with the next key."""
    new = next_key(home.path)
    assert new
    next_presence(home.path, new).write_text("7\n")


def asked(home: Home) -> RotationRequest:
    return read_either(begin_rotation(home))


def test_the_new_key_takes_the_place_of_the_old_one_which_never_comes_back(
    scene: Scene, home: Home
):
    old, request = public(home), asked(home)
    file = renewal.rotate(scene.federation, request)
    member = scene.federation.sites.members["alpha"]
    assert (member.state, member.public_key) == ("enrolled", request.new_key)
    assert member.former_keys == (old,)
    assert file.read_text().strip() == request.new_key != old


def test_accepting_a_request_twice_is_accepting_it_once(scene: Scene, home: Home):
    request = asked(home)
    renewal.rotate(scene.federation, request)
    once = scene.federation.sites
    renewal.rotate(scene.federation, request)
    assert scene.federation.sites == once


def test_asking_twice_asks_for_the_same_key(home: Home):
    assert asked(home).new_key == asked(home).new_key


def test_a_rotation_can_follow_another(scene: Scene, home: Home):
    keys = [public(home)]
    for _ in range(3):
        renewal.rotate(scene.federation, asked(home))
        let_in(home)
        assert finish_rotation(home)
        keys.append(public(home))
    member = scene.federation.sites.members["alpha"]
    assert (*member.former_keys, member.public_key) == tuple(keys)
    assert len(set(keys)) == 4


def changed(request: RotationRequest, **fields: str) -> RotationRequest:
    return request.model_copy(update=fields)


def test_a_request_that_one_of_the_keys_did_not_sign_is_refused(
    scene: Scene, home: Home, tmp_path: Path
):
    request, before = asked(home), scene.federation.sites
    thief = make_node_key(tmp_path / "thief").public.read_text().strip()
    for false in (
        changed(request, new_key=thief),
        changed(request, old_key=thief),
        changed(request, proof_old=request.proof_new),
        changed(request, proof_new=request.proof_old),
        changed(request, proof_new="zz"),
        changed(request, site="beta"),
    ):
        with pytest.raises(ConfigError):
            renewal.rotate(scene.federation, false)
        assert scene.federation.sites == before


def test_who_holds_another_key_cannot_ask_in_the_name_of_a_site(
    scene: Scene, home: Home, tmp_path: Path
):
    """Signed rightly with two keys of its own, of which none is enrolled."""
    before = scene.federation.sites
    home.key.private.rename(tmp_path / "kept")
    home.key.public.unlink()
    make_node_key(home.path)
    with pytest.raises(ConfigError, match="not the enrolled one"):
        renewal.rotate(scene.federation, asked(home))
    assert scene.federation.sites == before


def test_a_key_that_was_ever_on_the_list_cannot_be_rotated_to(scene: Scene, home: Home):
    first = asked(home)
    renewal.rotate(scene.federation, first)
    let_in(home)
    old = home.key.private.read_bytes(), home.key.public.read_bytes()
    assert finish_rotation(home)
    make_node_key(home.path / "next-key")
    for file, data in zip(next_key(home.path) or (), old, strict=True):
        file.write_bytes(data)
    with pytest.raises(ConfigError, match="already on the list"):
        renewal.rotate(scene.federation, asked(home))


def test_a_revoked_site_cannot_rotate_its_way_back(scene: Scene, home: Home):
    request = asked(home)
    revoke(scene.federation, "alpha")
    with pytest.raises(ConfigError, match="alpha is revoked"):
        renewal.rotate(scene.federation, request)


def test_another_federations_request_and_one_with_more_in_it_are_refused(scene: Scene, home: Home):
    request = asked(home)
    with pytest.raises(ConfigError, match="a request for 'other'"):
        with_rotation(scene.federation.sites, changed(request, federation="other"))
    file = home.path / "rotation.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1}))
    with pytest.raises(ConfigError, match="more"):
        read_either(file)


def test_the_old_key_stays_until_the_server_has_let_the_new_one_in(home: Home):
    old, new = public(home), asked(home).new_key
    assert not finish_rotation(home)
    assert public(home) == old
    let_in(home)
    assert finish_rotation(home)
    assert public(home) == new
    assert not finish_rotation(home)
    assert next_key(home.path) is None
    assert (home.path / "node.id").read_text() == "7\n"
    assert not (home.path / "rotation.json").exists()


@pytest.mark.parametrize("written", range(4))
def test_a_kill_between_the_files_is_made_good_by_the_next_start(
    home: Home, written: int, monkeypatch: pytest.MonkeyPatch
):
    new, count = asked(home).new_key, iter(range(9))
    let_in(home)

    def killed(*given, **options):
        if next(count) == written:
            raise KeyboardInterrupt
        return write_durably(*given, **options)

    def not_removed(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedse.federation.rotation.write_durably", killed)
        patch.setattr("fedse.federation.rotation.shutil.rmtree", not_removed)
        with pytest.raises(KeyboardInterrupt):
            finish_rotation(home)
    assert finish_rotation(home)
    assert (public(home), next_key(home.path)) == (new, None)


def test_a_node_that_still_runs_with_an_earlier_key_is_no_acceptance_of_a_later_one(home: Home):
    asked(home)
    waiting = next_key(home.path)
    assert waiting
    earlier = next_presence(home.path, waiting)
    let_in(home)
    assert finish_rotation(home)
    asked(home)
    earlier.write_text("7 left\n")
    assert not finish_rotation(home)
    forget_presences(home.path)
    assert not earlier.exists()


def test_a_revocation_does_not_touch_who_is_not_revoked(scene: Scene, home: Home):
    after = with_revocation(scene.federation.sites, "alpha")
    assert after.members["beta"] == scene.federation.sites.members["beta"]


def test_a_request_beside_a_rotation_that_ends_keeps_its_key(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    """`fedse site start` ends a rotation while `fedse site rotate` begins the next one."""
    begin_rotation(home)
    let_in(home)
    other, remove = threading.Thread(target=begin_rotation, args=(home,)), shutil.rmtree

    def remove_late(folder: Path) -> None:
        if not other.ident:
            other.start()
            other.join(0.5)
        remove(folder)

    monkeypatch.setattr(rotation.shutil, "rmtree", remove_late)
    assert finish_rotation(home)
    other.join()
    waiting = next_key(home.path)
    assert waiting
    assert read_either(home.path / "rotation.json").new_key == waiting.public.read_text().strip()
