"""Turns and feedback on their way to the disk."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedse.store.sealing import Unsealed
from fedse_serve.asked import Refused, parse_asked
from fedse_serve.gateway import Taken
from fedse_serve.recorder import RecordingThread
from fedse_serve.records import Records, open_records
from fedse_serve.serving import Served
from fedse_serve.settings import Metric
from fedse_serve.stored import feedback_of, sessions, turns_of
from fedse_serve.told import Told

METRICS = {"solved": Metric(type="boolean")}


def taken(number: int, session: str, *, exact: bool = True, learn: str = "yes") -> Taken:
    body = {"messages": [{"role": "user", "content": f"question {number}"}], "temperature": 0.5}
    headers = {"x-fedse-session-id": session, "x-fedse-learn": learn}
    asked = parse_asked("chat/completions", json.dumps(body).encode(), headers)
    told = Told(asked, "base", [1, 2, number], [7, 8], [-0.5, -0.25], ["said"], {}, "stop")
    if not exact:
        told = Told(asked, "base", [1, 2], [7])
    served = Served(session, "stable", "base")
    return Taken(f"turn-{number}", served, asked, "shop", told, float(number), 0.1, not exact)


@contextmanager
def recording(folder: Path) -> Iterator[tuple[RecordingThread, Records]]:
    records = open_records(folder, seal=Unsealed(), redact=None, held_out=0.0, clock=lambda: 1000.0)
    told: list[str] = []
    thread = RecordingThread(
        records, METRICS, template="t", encoder=None, clock=lambda: 2000.0, tell=told.append
    )
    try:
        yield thread, records
    finally:
        thread.close()


def put(thread: RecordingThread, *turns: Taken) -> None:
    """All turns are on disk."""

    async def play() -> None:
        await asyncio.gather(*filter(None, map(thread.turn, turns)))

    asyncio.run(play())


def said(session: str, value: bool = True) -> bytes:
    return json.dumps({"metric_name": "solved", "value": value, "episode_id": session}).encode()


def test_a_turn_that_is_waited_for_is_on_disk(tmp_path: Path) -> None:
    with recording(tmp_path) as (thread, records):
        put(thread, *(taken(number, f"s{number % 7}") for number in range(1, 301)))
        assert sum(session.turns for session in sessions(records)) == 300
        assert len([*sessions(records)]) == 7
        (first, *_) = turns_of(records, "s1")
    assert (first.adapter, first.template, first.sampling) == ("base", "t", {"temperature": 0.5})
    assert (first.given_ids, first.sampled_ids) == ((1, 2, 1), (7, 8))
    assert (first.observation, first.reply) == ("question 1", "said")


def test_feedback_that_follows_a_turn_at_once_finds_its_session(tmp_path: Path) -> None:
    async def play(thread: RecordingThread) -> None:
        thread.turn(taken(1, "s"))
        first = await thread.feedback(said("s"), {})
        assert await thread.feedback(said("s"), {}) == first
        with pytest.raises(Refused, match="no session or turn 'other'") as refused:
            await thread.feedback(said("other"), {})
        assert refused.value.status == 404

    with recording(tmp_path) as (thread, records):
        asyncio.run(play(thread))
    assert [(one.metric, one.value, one.at) for one in feedback_of(records, "s")] == [
        ("solved", True, 2000.0)
    ]


def test_a_person_who_objects_in_the_middle_of_a_session_is_not_learned_from(
    tmp_path: Path,
) -> None:
    with recording(tmp_path) as (thread, records):
        put(thread, taken(1, "s"), taken(2, "s", learn="no"), taken(3, "s"))
    turns = turns_of(records, "s")
    assert [(turn.observation, turn.sampled_ids) for turn in turns] == [("", ())] * 3
    assert b"question" not in records.path.read_bytes()


def test_of_a_turn_that_broke_off_only_the_fact_is_kept(tmp_path: Path) -> None:
    with recording(tmp_path) as (thread, records):
        put(thread, taken(1, "s", exact=False))
    (turn,) = turns_of(records, "s")
    assert (turn.guards.error, turn.observation, turn.sampled_ids) == ("broke_off", "", ())


def test_if_the_disk_fails_turns_are_counted_as_lost_and_feedback_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError("no space left on device")

    async def play(thread: RecordingThread) -> None:
        with pytest.raises(Refused) as refused:
            await thread.feedback(said("s"), {})
        assert (refused.value.status, refused.value.retry) == (503, 5)

    with recording(tmp_path) as (thread, records):
        monkeypatch.setattr(records, "begin_all", full)
        monkeypatch.setattr(records, "add_feedback", full)
        put(thread, taken(1, "s"))
        asyncio.run(play(thread))
        assert not thread.recording()
        assert thread.lost == 1
        monkeypatch.undo()
        put(thread, taken(2, "s"))
        answered = asyncio.run(thread.feedback(said("s"), {}))
        assert answered["feedback_id"]
        assert thread.recording()
