"""A command says what it is about to do, and how far it is, before its first result."""

import json
from pathlib import Path

import pytest

from fedse.errors import Interrupted
from fedse_reproduce import command as reproduce
from fedse_reproduce import progress
from fedse_reproduce.jobs import Found, key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.progress import (
    TableProgress,
    duration,
    progress_line,
    progress_of,
    seconds_left,
)
from fedse_reproduce.tables import Job, arms_of, jobs_of

JOBS = jobs_of(arms_of(TABLES["one-world"], quick=True), range(1))


def commit(root: Path, job: Job, rounds: int) -> None:
    log = root / "runs" / key_of(job) / "events.jsonl"
    log.parent.mkdir(parents=True)
    events = [{"event": "round.committed", "round": index + 1} for index in range(rounds)]
    log.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_rounds_are_counted_while_nothing_is_finished(tmp_path: Path):
    """One federation of five sites, and the five alone: half of the work each."""
    rounds = {key_of(job): job.config.run.rounds for job in JOBS}
    sites, each = len(JOBS[0].config.clients), JOBS[0].config.run.rounds
    nothing = TableProgress(0, len(rounds), 0, sum(rounds.values()), 0, 2 * sites * each)
    assert progress_of(JOBS, tmp_path) == nothing
    commit(tmp_path, JOBS[0], 2)
    begun = nothing._replace(committed=2, done=2 * sites)
    assert progress_of([*JOBS, *JOBS], tmp_path) == begun
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / f"{key_of(JOBS[0])}.json").write_text("{}")
    half = nothing._replace(finished=1, committed=each, done=sites * each)
    assert progress_of(JOBS, tmp_path) == half
    assert half.left == 0.5


def test_the_time_left_follows_the_pace_since_the_command_began():
    began = TableProgress(1, 3, 10, 30, 50, 150)
    assert seconds_left(began, began, 20.0, None) is None
    assert seconds_left(began, began, 20.0, 90.0) == 70.0
    assert seconds_left(began, began, 100.0, 90.0) == 0.0
    # 20 site-rounds took 40 s, 80 are left; what was done before says nothing about the pace.
    assert seconds_left(began, began._replace(done=70), 40.0, 90.0) == 160.0


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (5369, "89 min"), (7500, "2 h 05 min")],
)
def test_a_duration_is_told_in_its_largest_units(seconds: float, told: str):
    assert duration(seconds) == told


def test_a_line_of_progress_fits_eighty_columns():
    now = TableProgress(123, 456, 4567, 9999, 50, 200)
    line = progress_line(now, 123_456, bar=True)
    assert line.startswith("[##------] 4567 of 9999 rounds, 123 of 456 experiments, about 34")
    assert len(line) < 80
    assert progress_line(now, None, bar=False) == "4567 of 9999 rounds, 123 of 456 experiments"


def test_what_is_done_is_told_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def no_jobs(*_: object, **__: object) -> dict[str, Found]:
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "do_jobs", no_jobs)
    monkeypatch.setattr("sys.argv", ["fedse", "reproduce", "one-world", "--out", "my runs"])
    with pytest.raises(Interrupted) as stopped:
        reproduce.make("one-world", range(1), tmp_path, quick=True, jobs=2)
    assert stopped.value.hint == "it continues with: fedse reproduce one-world --out 'my runs'"
    told = capsys.readouterr().err
    count, rounds = len({key_of(job) for job in JOBS}), 6 * JOBS[0].config.run.rounds
    # 120 and 142 CPU seconds in docs/results.md, on two cores.
    assert told.splitlines()[:5] == [
        TABLES["one-world"].title,
        f"  work    2 arms, 1 seed: {count} experiments, {rounds} rounds in all",
        "  time    about 2 min, 2 at a time",
        f"  runs    {tmp_path / 'runs'}",
        f"  result  {tmp_path / 'one-world-quick.json'} and .md",
    ]
    assert "before" not in told


def test_what_was_done_before_takes_no_time_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(progress, "do_jobs", lambda *_, **__: {})
    commit(tmp_path, JOBS[0], JOBS[0].config.run.rounds)
    with pytest.raises(KeyError):  # nothing was found
        reproduce.make("one-world", range(1), tmp_path, quick=True, jobs=2)
    told = capsys.readouterr().err
    assert f"  before  0 experiments, {JOBS[0].config.run.rounds} rounds are done\n" in told
    assert "  time    about 66 s, 2 at a time\n" in told
