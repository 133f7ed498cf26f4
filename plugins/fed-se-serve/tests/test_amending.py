"""A success that is called a failure later is learned from no longer."""

from contextlib import closing
from pathlib import Path

import pytest
from scene_records import ENCODER, END, NOON, PLAIN, turn
from test_harvest import Acting, Shop

from fedse.method.rollout import choose_games
from fedse.site.open import amending
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import make_key
from fedse.store.sealing import UNSEALED
from fedse.types import Task, Trajectory
from fedse_serve.forgetting import withdraw
from fedse_serve.rows import FeedbackRow


def learn(shop: Shop, buffer: Buffer, round: int, record: str = "") -> list[str]:
    """A round of the site; what it then learns from."""
    service = shop.service()
    play = amending(service.player(ENCODER, lambda: None), service, buffer)
    games = choose_games(service.tasks("train"), 20, seed=0, record=record)
    made = play(games, lambda: service, Acting(PLAIN), round=round, batch=8, seed=0)
    won: list[Trajectory] = [one for one in made if one.success]
    buffer.add(won, experiment="e")
    return sorted(one.turns[-1].action for one in buffer.lessons("e", round))


def say(shop: Shop, session: str, solved: bool, after: float) -> None:
    shop.records.add_feedback([FeedbackRow("solved", solved, NOON + after, session=session)])


@pytest.mark.parametrize("encrypted", [False, True])
def test_what_is_amended_is_taken_out_at_the_next_harvest(tmp_path: Path, encrypted: bool) -> None:
    shop = Shop(tmp_path)
    seal = make_key(tmp_path / "key") if encrypted else UNSEALED
    for name in ("amended", "kept", "again"):
        shop.serve(name, ("a", name), solved=True)
    # A second episode in the same session, and a correction, which stays right.
    shop.records.add_turns([turn(9, f"<user>other{END}", "aside", session="amended")])
    right = FeedbackRow("demonstration", "right", NOON, inference="i9")
    shop.records.add_feedback([right])
    with closing(Buffer(tmp_path / "buffer.db", seal=seal)) as buffer:
        assert learn(shop, buffer, 1) == ["again", "amended", "aside", "kept", "right"]
        say(shop, "amended", False, 100)
        say(shop, "again", False, 100)
        say(shop, "again", True, 200)
        # An evaluation changes nothing.
        assert "amended" in learn(shop, buffer, 1, record="home")
        assert learn(shop, buffer, 2) == ["again", "kept", "right"]
        assert learn(shop, buffer, 3) == ["again", "kept", "right"]
        rows = buffer._db.execute("SELECT count(DISTINCT content) FROM sighting").fetchone()
        assert rows == (3,)


def test_a_failure_that_is_called_a_success_later_is_learned_from(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.serve("failed", ("a", "b"), solved=False)
    shop.serve("kept", ("a", "c"), solved=True)
    with closing(Buffer(tmp_path / "buffer.db")) as buffer:
        assert learn(shop, buffer, 1) == ["c"]
        assert not shop.service().has_news()
        say(shop, "failed", True, shop.clock() - NOON)
        shop.clock.now += 10
        assert shop.service().has_news()
        assert learn(shop, buffer, 2) == ["b", "c"]
        assert not shop.service().has_news()
        assert learn(shop, buffer, 3) == ["b", "c"]


def test_what_consent_was_taken_from_after_a_harvest_is_learned_from_no_longer(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path)
    for name in ("gone", "kept"):
        shop.serve(name, ("a", name), solved=True)
    right = FeedbackRow("demonstration", "right", NOON, inference="gone-i1")
    assert shop.records.add_feedback([right]) != [None]
    with closing(Buffer(tmp_path / "buffer.db")) as buffer:
        assert learn(shop, buffer, 1) == ["gone", "kept", "right"]
        withdraw(shop.records, "gone")
        assert learn(shop, buffer, 2) == ["kept"]


def test_what_is_taken_out_is_of_that_environment_only(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.serve("s", ("a", "b"), solved=True)
    with closing(Buffer(tmp_path / "buffer.db")) as buffer:
        assert learn(shop, buffer, 1) == ["b"]
        (lesson,) = buffer.lessons("e", 1)
        buffer.erasures.take_out([Task(env="desk", id=lesson.task.id, split="train")])
        assert len(buffer) == 1
        buffer.erasures.take_out([lesson.task])
        assert len(buffer) == 0
