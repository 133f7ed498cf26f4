import os
import signal
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer, RolloutPart, Tally
from fedse.types import ClientStats, Task, Trajectory, Turn


def episode(number: int, *, round: int = 1) -> Trajectory:
    return Trajectory(
        task=Task(env="maze", id=str(number), split="train"),
        seed=0,
        turns=(Turn(observation="here", action=f"go {number}"),),
        outcome="success",
        reward=1.0,
        policy="p",
        round=round,
    )


@pytest.fixture
def buffer(tmp_path: Path) -> Buffer:
    return Buffer(tmp_path / "home" / "buffer.db")


def test_it_accumulates_and_never_counts_twice(buffer: Buffer):
    buffer.add([episode(1), episode(2), episode(1)], experiment="e")
    buffer.add([episode(2, round=2), episode(3, round=2)], experiment="e")
    assert [e.task.id for e in buffer.lessons("e", 2)] == ["1", "2", "3"]
    assert (buffer.added("e", 1), buffer.added("e", 2)) == (2, 1)


def test_shorter_memories_still_learn_what_was_met_again(buffer: Buffer):
    buffer.add([episode(0, round=0)], experiment="e")
    buffer.add([episode(1), episode(2)], experiment="e")
    buffer.add([episode(2, round=2), episode(3, round=2)], experiment="e")

    def ids(history: str) -> list[str]:
        return [e.task.id for e in buffer.lessons("e", 2, history)]

    assert ids("all") == ["0", "1", "2", "3"]
    assert ids("demonstrations") == ["0", "2", "3"]
    assert ids("round") == ["2", "3"]


def test_every_game_is_on_record_once_and_is_no_lesson(buffer: Buffer):
    lost = episode(1).model_copy(update={"outcome": "failure"})
    for _ in range(2):
        buffer.record_played([lost, episode(2)], experiment="e", bodies=True)
    buffer.record_played([episode(3, round=2)], experiment="e", bodies=False)
    found = list(buffer.played("e"))
    assert [(p.round, p.position, p.task, p.outcome) for p in found] == [
        (1, 0, "1", "failure"),
        (1, 1, "2", "success"),
        (2, 0, "3", "success"),
    ]
    assert [p.episode for p in found] == [lost, episode(2), None]
    assert list(buffer.lessons("e", 9)) == []


def ended(number: int, outcome: str, *, round: int, split: str = "train") -> Trajectory:
    task = Task(env="maze", id=str(number), split=split)
    return episode(number, round=round).model_copy(update={"outcome": outcome, "task": task})


def test_how_often_a_task_was_won_is_on_record(buffer: Buffer):
    outcomes = ("success", "failure", "truncated", "broken")
    for round in (1, 2, 3):
        games = [ended(7, outcome, round=round) for outcome in outcomes]
        games += [ended(8, "failure", round=round), ended(7, "success", round=round, split="test")]
        buffer.record_played(games, experiment="e", bodies=False)
    seven, eight = (Task(env="maze", id=id, split="train") for id in "78")
    assert buffer.tallies("e", before=3) == {seven: Tally(6, 2), eight: Tally(2, 0)}
    assert buffer.tallies("e", before=1) == buffer.tallies("other", before=9) == {}


def test_failures_are_the_newest_different_ones_of_training_tasks(buffer: Buffer):
    for round in (1, 2, 3):
        games = [ended(round, "failure", round=round), ended(9, "failure", round=round)]
        games += [ended(4, outcome, round=round) for outcome in ("success", "truncated", "broken")]
        games.append(ended(5, "failure", round=round, split="test"))
        buffer.record_played(games, experiment="e", bodies=round != 2)

    def found(round: int, history: str = "all", most: int = 9) -> list[tuple[str, int]]:
        taken = buffer.failures("e", round, history, most=most)
        return [(episode.task.id, episode.round) for episode in taken]

    assert found(3) == [("1", 1), ("3", 3), ("9", 3)]
    assert found(3, most=2) == [("3", 3), ("9", 3)]
    assert found(2) == [("1", 1), ("9", 1)]
    assert found(2, "round") == found(3, most=0) == []
    assert found(3, "demonstrations") == [("3", 3), ("9", 3)]


def test_a_round_learns_from_the_past_and_from_other_experiments_only(buffer: Buffer):
    buffer.add([episode(1, round=5)], experiment="earlier")
    buffer.add([episode(2, round=1)], experiment="e")
    buffer.add([episode(3, round=2)], experiment="e")
    assert [e.task.id for e in buffer.lessons("e", 1)] == ["1", "2"]


def test_episodes_come_back_as_they_were(buffer: Buffer):
    buffer.add([episode(1)], experiment="e")
    assert list(buffer.lessons("e", 1)) == [episode(1)]


def test_the_outbox_answers_exactly_the_request_it_was_given(buffer: Buffer):
    done = SiteReply(ClientStats(played=3, loss=0.5), b"bytes")
    buffer.outbox.finish("e", 1, "request", done)
    assert buffer.outbox.finished("e", 1, "request") == done
    assert buffer.outbox.finished("e", 1, "another") is None
    assert buffer.outbox.finished("e", 2, "request") is None
    buffer.outbox.finish("e", 2, "r", SiteReply(ClientStats(), None))
    assert buffer.outbox.finished("e", 2, "r") == SiteReply(ClientStats(), None)


def test_the_newest_answer_is_that_of_the_highest_round(buffer: Buffer):
    assert buffer.outbox.newest("e") is None
    for round in (2, 7, 5):
        buffer.outbox.finish("e", round, "request", SiteReply(ClientStats(), None))
    buffer.outbox.finish("other", 9, "request", SiteReply(ClientStats(), None))
    assert buffer.outbox.newest("e") == 7


def finish(buffer: Buffer, round: int, moments: bytes | None, experiment: str = "e") -> None:
    buffer.outbox.finish(experiment, round, "r", SiteReply(ClientStats(), None), moments=moments)


def test_moments_are_for_later_rounds_of_the_same_experiment(buffer: Buffer):
    assert buffer.outbox.moments("e", before=9) is None
    finish(buffer, 2, b"two")
    finish(buffer, 7, b"other", experiment="other")
    assert [buffer.outbox.moments("e", before=round) for round in (1, 2, 3, 9)] == [None, None] + [
        b"two"
    ] * 2
    assert buffer.outbox.moments("other", before=8) == b"other"


def test_only_the_newest_moments_are_kept_and_a_round_without_any_leaves_them(buffer: Buffer):
    for round, moments in ((1, b"one"), (2, b"two"), (3, None)):
        finish(buffer, round, moments)
    assert buffer.outbox.moments("e", before=4) == b"two"
    assert buffer._db.execute("SELECT count(*) FROM moments").fetchone() == (1,)
    finish(buffer, 1, b"one again")
    assert buffer.outbox.moments("e", before=2) == b"one again"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7])
def test_moments_larger_than_a_row_come_back_whole(buffer: Buffer, monkeypatch, size: int):
    monkeypatch.setattr("fedse.store.outbox.PIECE_BYTES", 3)
    finish(buffer, 1, b"12345678901")
    finish(buffer, 2, b"abcdefg"[:size])
    assert buffer.outbox.moments("e", before=3) == (b"abcdefg"[:size] or None)


def test_answer_and_moments_are_stored_together_or_not_at_all(buffer: Buffer, monkeypatch):
    finish(buffer, 1, b"one")

    def breaks(*given: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(buffer.outbox, "_replace_moments", breaks)
    with pytest.raises(StoreError, match="disk full"):
        finish(buffer, 2, b"two")
    assert buffer.outbox.finished("e", 2, "r") is None
    assert buffer.outbox.moments("e", before=3) == b"one"


PART = RolloutPart("e", 1, "train", 0, "identity")


@pytest.mark.parametrize("field", RolloutPart._fields)
def test_a_part_is_found_under_exactly_its_name(buffer: Buffer, field: str):
    buffer.keep_part(PART, [episode(1), episode(2)])
    other = {"round": 2, "record": "test", "start": 4}.get(field, "other")
    assert buffer.part(PART) == [episode(1), episode(2)]
    assert buffer.part(PART._replace(**{field: other})) is None


def test_a_part_comes_back_as_it_was_whatever_was_said(buffer: Buffer):
    turn = Turn(observation="half \ud83d", action="\x00", context_ids=(1,), action_ids=(2, 3))
    odd = episode(1).model_copy(update={"turns": (turn,), "reward": float("nan")})
    buffer.keep_part(PART, [odd])
    [back] = buffer.part(PART) or []
    assert back.reward != back.reward
    assert back.model_copy(update={"reward": 1.0}) == odd.model_copy(update={"reward": 1.0})


def test_parts_of_one_round_are_there_together_and_of_two_rounds_never(buffer: Buffer):
    parts = [PART, PART._replace(start=4), PART._replace(record="test")]
    for part in parts:
        buffer.keep_part(part, [episode(1)])
    assert all(buffer.part(part) for part in parts)
    later = PART._replace(round=2)
    buffer.keep_part(later, [episode(1, round=2)])
    assert [buffer.part(part) for part in parts] == [None] * 3
    assert buffer.part(later)


def test_no_word_of_a_part_is_on_disk_after_the_answer(buffer: Buffer, tmp_path: Path):
    said = "the patient's name is Canary"
    turn = Turn(observation=said, action="go")
    for round, start in ((1, 0), (2, 0), (2, 4)):
        told = [episode(n).model_copy(update={"turns": (turn,) * 40}) for n in range(4)]
        buffer.keep_part(PART._replace(round=round, start=start), told)

    def on_disk() -> bool:
        return any(said.encode() in file.read_bytes() for file in (tmp_path / "home").iterdir())

    assert on_disk()
    buffer.outbox.finish("e", 2, "request", SiteReply(ClientStats(), None))
    assert not on_disk()


def test_nobody_else_can_read_it(buffer: Buffer, tmp_path: Path):
    buffer.add([episode(1)], experiment="e")
    made = list((tmp_path / "home").iterdir())
    assert tmp_path / "home" / "buffer.db" in made
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_newer_schema_is_refused(tmp_path: Path):
    import sqlite3

    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema 99"):
        Buffer(tmp_path / "b.db")


WRITER = """
import sys
import tracemalloc
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_buffer import Buffer, episode
buffer = Buffer(Path(sys.argv[1]))
for n in range(100000):
    buffer.add([episode(2 * n), episode(2 * n + 1)], experiment="e")
    print(n, flush=True)
"""


def test_an_acknowledged_episode_survives_kill_nine(tmp_path: Path):
    code = WRITER.format(tests=str(Path(__file__).parent))
    path = tmp_path / "buffer.db"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 50:
                os.kill(writer.pid, signal.SIGKILL)
                break
        acknowledged = 50 + sum(1 for _ in writer.stdout)
    kept = [int(e.task.id) for e in Buffer(path).lessons("e", 1)]
    assert len(kept) >= 2 * (acknowledged + 1)
    assert kept == list(range(len(kept)))
    assert len(kept) % 2 == 0


def test_lessons_are_read_one_by_one_and_stay_those_that_were_there(tmp_path: Path):
    buffer = Buffer(tmp_path / "buffer.db")
    buffer.add([episode(n) for n in range(20)], experiment="e")
    lessons = buffer.lessons("e", 9)
    buffer.add([episode(99)], experiment="e")
    assert (len(lessons), lessons[7], lessons[-1]) == (20, episode(7), episode(19))
    tracemalloc.start()
    for lesson in lessons:
        assert lesson.success
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    held = [*lessons]
    assert len(held) == 20
    assert read < tracemalloc.get_traced_memory()[1] / 2
    tracemalloc.stop()
    buffer.close()
