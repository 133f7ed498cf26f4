"""A run is seen through to its end, whatever is killed on the way.

How far a run got is in its folder, and the lock on that folder, which ends with the process,
shows whether the server's app works on it. So nothing here asks Flower, which for a minute believes
that a killed app is alive. An app that ended before its run did is submitted again and
continues after the last committed round.
"""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

from fedse.errors import RunError
from fedse.events import read_events
from fedse.processes.restart import Tell
from fedse.store.lock import is_locked
from fedse.store.run_folder import open_run
from fedse.waiting import wait_until

LOOK_SECONDS = 0.5
# From the submission until the app holds the run; a SuperLink may be restarting meanwhile.
START_SECONDS = 120.0
# Seconds before the next submission after one that committed nothing; the last counts for all.
PAUSES = (2.0, 5.0, 15.0, 60.0)
# Give up after this many in a row that committed nothing.
HOPELESS = 8


class Flower(Protocol):
    """What runs the server's app."""

    def submit(self) -> str:
        """The app was submitted; a number to stop it by. RunError = it was not."""
        ...

    def stop(self, number: str) -> None:
        """Nothing is done for that submission any more, as far as is known now."""
        ...

    def look(self) -> None:
        """What must run for an app to run does, or is started again."""
        ...

    def cause(self) -> str:
        """The last line of the app that looks like an error; empty if there is none."""
        ...


class Progress(NamedTuple):
    """How far a run is."""

    committed: int
    digest: str
    """Of the last committed adapter, if all rounds are committed and all is recorded."""


def run_to_end(run_dir: Path, flower: Flower, *, tell: Tell) -> str:
    """All rounds are committed; digest of the final adapter."""
    failures, before = 0, progress_of(run_dir).committed
    while True:
        cause = _attempt(run_dir, flower)
        progress = progress_of(run_dir)
        if progress.digest:
            return progress.digest
        failures = 0 if progress.committed > before else failures + 1
        before = progress.committed
        if failures >= HOPELESS:
            message = (
                f"{failures} submissions in a row committed no round after round {before}{cause}"
            )
            _note(run_dir, "run.failed", error=message, exit_code=RunError.exit_code)
            folder = f"--dir {run_dir.parent}"
            hint = f"fedse federation status {folder}; then: fedse federation resume {folder}"
            raise RunError(message, hint=hint)
        # The first time at once: most ends are kills.
        pause = PAUSES[min(failures - 2, len(PAUSES) - 1)] if failures > 1 else 0.0
        tell(f"the server's app ended after round {before}{cause}; submitted again")
        _note(run_dir, "run.resumed", round=before, reason=cause)
        _while_looking(flower, lambda: False, pause)


def _attempt(run_dir: Path, flower: Flower) -> str:
    """One submission has ended, or did not begin; returns the cause, if there is one."""
    log = run_dir / "events.jsonl"
    size_before = log.stat().st_size if log.exists() else 0

    def has_begun() -> bool:
        # The first thing the app does with a run is to log an event.
        return is_locked(run_dir) or (log.exists() and log.stat().st_size > size_before)

    try:
        number = flower.submit()
    except RunError as error:
        return f": {error}"
    if not _while_looking(flower, has_begun, START_SECONDS):
        flower.stop(number)
        return f": the app did not begin in {START_SECONDS:.0f} s{flower.cause()}"
    _while_looking(flower, lambda: not is_locked(run_dir), None)
    if not progress_of(run_dir).digest:
        flower.stop(number)
    return flower.cause()


def _while_looking(flower: Flower, done: Callable[[], bool], seconds: float | None) -> bool:
    """Whether `done` came true in time; what must run was looked after meanwhile."""
    return wait_until(done, seconds=seconds, every=LOOK_SECONDS, meanwhile=flower.look)


def progress_of(run_dir: Path) -> Progress:
    """What the folder says; a run is at its end when the last adapter is measured as well."""
    with closing(open_run(run_dir, clock=time.time)) as run:
        committed, rounds = run.committed or 0, run.config.run.rounds
        ended = committed == rounds and _has_finished(run_dir / "events.jsonl")
        return Progress(committed, run.adapter(rounds).digest if ended else "")


def _has_finished(log: Path) -> bool:
    last = [e["event"] for e in read_events(log, ['"run.finished"', '"run.started"'])]
    return bool(last) and last[-1] == "run.finished"


def _note(run_dir: Path, event: str, **facts: str | int) -> None:
    with closing(open_run(run_dir, clock=time.time)) as run:
        run.emit(event, **facts)
