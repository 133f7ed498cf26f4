"""Episodes that were stored before redaction was switched on."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.store.buffer import Buffer, RolloutPart
from fedse.types import Task, Trajectory, Turn


def episode(said: str, *, task: int = 1, round: int = 1) -> Trajectory:
    return Trajectory(
        task=Task(env="e", id=str(task), split="train"),
        seed=0,
        turns=(Turn(observation="o", action=said),),
        outcome="success",
        reward=1.0,
        policy="x",
        round=round,
    )


def hidden(one: Trajectory) -> Trajectory:
    turns = tuple(
        t.model_copy(update={"action": t.action.replace("swordfish", "x").replace("tuna", "x")})
        for t in one.turns
    )
    return one if turns == one.turns else one.model_copy(update={"turns": turns})


def filled(path: Path) -> Path:
    lessons = [episode("swordfish"), episode("plain"), episode("tuna", round=2)]
    with closing(Buffer(path)) as buffer:
        buffer.add(lessons, experiment="run")
        buffer.record_played(lessons, experiment="run", bodies=True)
        buffer.keep_part(RolloutPart("run", 3, "train", 0, "same"), lessons)
    return path


def test_what_is_written_has_passed_the_filter(tmp_path: Path):
    with closing(Buffer(tmp_path / "b.db", redact=hidden)) as buffer:
        buffer.add([episode("swordfish")], experiment="run")
        buffer.record_played([episode("swordfish")], experiment="run", bodies=True)
        part = RolloutPart("run", 1, "train", 0, "same")
        buffer.keep_part(part, [episode("swordfish")])
        assert {e.turns[0].action for e in buffer.episodes()} == {"x"}
        assert buffer.part(part) == [episode("x")]
    assert not any(b"swordfish" in file.read_bytes() for file in tmp_path.iterdir())


def test_no_byte_of_what_was_replaced_is_left(tmp_path: Path):
    path = filled(tmp_path / "b.db")
    assert any(b"swordfish" in file.read_bytes() for file in tmp_path.iterdir())
    with closing(Buffer(path, redact=hidden)) as buffer:
        assert buffer.rewrite() == 6
        assert buffer.rewrite() == 0
        assert buffer.part(RolloutPart("run", 3, "train", 0, "same"))[1] == episode("plain")
    assert not any(b"swordfish" in file.read_bytes() for file in tmp_path.iterdir())


def test_a_reader_keeps_the_log_from_being_emptied_and_is_named(tmp_path: Path):
    path = filled(tmp_path / "b.db")
    with closing(Buffer(path, redact=hidden)) as buffer, closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trajectory").fetchone()
        buffer._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(StoreError, match="being read"):
            buffer.rewrite()
        with pytest.raises(StoreError, match="being read"):
            buffer.rewrite()
        reader.rollback()
    with closing(Buffer(path)):
        # Whoever opens the file next finishes the work.
        assert not any(b"swordfish" in file.read_bytes() for file in tmp_path.iterdir())


def test_lessons_that_become_equal_are_one_and_stay_met_in_both_rounds(tmp_path: Path):
    with closing(Buffer(filled(tmp_path / "b.db"), redact=hidden)) as buffer:
        buffer.rewrite()
        assert [e.turns[0].action for e in buffer.lessons("run", 2)] == ["x", "plain"]
        met = [[e.turns[0].action for e in buffer.lessons("run", n, "round")] for n in (1, 2)]
        assert met == [["x", "plain"], ["x"]]
        assert [(g.round, g.outcome) for g in buffer.games("run")] == [
            (1, "success"),
            (1, "success"),
            (2, "success"),
        ]
