"""`fedse reproduce` says what it is about to do, and how far it is, before its first result."""

import json
from pathlib import Path

import pytest

from fedse_reproduce import command as reproduce
from fedse_reproduce.jobs import Found, key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.progress import TableProgress, progress_of
from fedse_reproduce.tables import Job, arms_of, jobs_of

JOBS = jobs_of(arms_of(TABLES["one-world"], quick=True), range(1))


def commit(root: Path, job: Job, rounds: int) -> None:
    log = root / "runs" / key_of(job) / "events.jsonl"
    log.parent.mkdir(parents=True)
    events = [{"event": "round.committed", "round": index + 1} for index in range(rounds)]
    log.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_rounds_are_counted_while_nothing_is_finished(tmp_path: Path):
    rounds = {key_of(job): job.config.run.rounds for job in JOBS}
    nothing = TableProgress(0, len(rounds), 0, sum(rounds.values()))
    assert progress_of(JOBS, tmp_path) == nothing
    commit(tmp_path, JOBS[0], 2)
    assert progress_of([*JOBS, *JOBS], tmp_path) == nothing._replace(committed=2)
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / f"{key_of(JOBS[0])}.json").write_text("{}")
    whole = rounds[key_of(JOBS[0])]
    assert progress_of(JOBS, tmp_path) == nothing._replace(finished=1, committed=whole)


def test_what_is_done_is_told_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def no_jobs(*_: object, **__: object) -> dict[str, Found]:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "do_jobs", no_jobs)
    with pytest.raises(KeyboardInterrupt):
        reproduce.make("one-world", range(1), tmp_path, quick=True, jobs=2)
    told = capsys.readouterr().err
    count = len({key_of(job) for job in JOBS})
    assert told.startswith(TABLES["one-world"].title)
    assert f"{count} experiments of " in told
    assert f"kept in {tmp_path}; if you stop it, the same command continues" in told
