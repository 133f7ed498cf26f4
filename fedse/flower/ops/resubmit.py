"""A run is seen through to its end, whatever is killed on the way.

How far a run got is in its folder, and the lock on that folder, which ends with the process,
shows whether the server's app works on it. So nothing here asks Flower, which for a minute believes
that a killed app is alive. An app that ended before its run did is submitted again and
continues after the last committed round.
"""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from fedse.errors import FedSEError, RunError
from fedse.events import read_events
from fedse.processes.restart import Tell
from fedse.store.lock import is_locked
from fedse.store.next_round import is_to_stop
from fedse.store.run_folder import open_run
from fedse.store.space import is_full
from fedse.waiting import wait_until

LOOK_SECONDS = 0.5
# From the submission until the app holds the run; a SuperLink may be restarting meanwhile.
START_SECONDS = 120.0
# Seconds before the next submission after one that committed nothing; the last counts for all.
PAUSES = (2.0, 5.0, 15.0, 60.0)
# Give up after this many in a row that committed nothing.
HOPELESS = 8

T = TypeVar("T")


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

    def lacks_room(self) -> bool:
        """Whether the disk has no room for a round; it says so itself."""
        ...

    def cause(self) -> str:
        """The last line of the app that looks like an error; empty if there is none."""
        ...


class Progress(NamedTuple):
    """How far a run is."""

    committed: int
    digest: str
    """Of the last committed adapter, if the run has ended: all rounds are committed and all is
    recorded, or it has stopped because somebody asked for it."""


def run_to_end(run_dir: Path, flower: Flower, *, tell: Tell) -> str:
    """All rounds are committed, or the run has stopped as asked; digest of the newest adapter.

    An attempt that ended because the disk is full is none of those that may fail.
    """
    read = partial(progress_of, run_dir)
    failures, before = 0, _insist(flower, read).committed
    while True:
        _while_looking(flower, lambda: not flower.lacks_room(), None)
        cause = _attempt(run_dir, flower)
        full = flower.lacks_room()
        progress = _insist(flower, read)
        if progress.digest:
            return progress.digest
        failures = 0 if progress.committed > before else failures + (not full)
        before = progress.committed
        if failures >= HOPELESS:
            message = (
                f"{failures} submissions in a row committed no round after round {before}{cause}"
            )
            code = RunError.exit_code
            _note(flower, run_dir, "run.failed", error=message, exit_code=code)
            folder = f"--dir {run_dir.parent}"
            hint = f"fedse federation status {folder}; then: fedse federation start {folder}"
            raise RunError(message, hint=hint)
        # The first time at once: most ends are kills.
        pause = PAUSES[min(failures - 2, len(PAUSES) - 1)] if failures > 1 else 0.0
        tell(f"the server's app ended after round {before}{cause}; submitted again")
        _note(flower, run_dir, "run.resumed", round=before, reason=cause)
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
    except (FedSEError, OSError) as error:
        if not isinstance(error, RunError) and not _full(flower, error):
            raise
        return f": {error}"
    if not _while_looking(flower, has_begun, START_SECONDS):
        flower.stop(number)
        return f": the app did not begin in {START_SECONDS:.0f} s{flower.cause()}"
    _while_looking(flower, lambda: not is_locked(run_dir), None)
    if not _insist(flower, partial(progress_of, run_dir)).digest:
        _insist(flower, partial(flower.stop, number))
    return _failure(log) or flower.cause()


def _failure(log: Path) -> str:
    """The error that ended the round loop last, if it has not begun again since."""
    names = ['"loop.failed"', '"run.started"', '"run.resumed"']
    last = next(iter([*read_events(log, names)][-1:]), {})
    return f": {last['error']}" if last.get("event") == "loop.failed" else ""


def _insist(flower: Flower, act: Callable[[], T]) -> T:
    """What `act` returns; it is tried again for as long as it fails because the disk is full."""
    while True:
        try:
            return act()
        except (FedSEError, OSError) as error:
            if not _full(flower, error):
                raise
        _while_looking(flower, lambda: False, PAUSES[0])
        _while_looking(flower, lambda: not flower.lacks_room(), None)


def _full(flower: Flower, error: Exception) -> bool:
    # SQLite has other words for it where it cannot make its files.
    return is_full(error) or flower.lacks_room()


def _while_looking(flower: Flower, done: Callable[[], bool], seconds: float | None) -> bool:
    """Whether `done` came true in time; what must run was looked after meanwhile."""
    return wait_until(done, seconds=seconds, every=LOOK_SECONDS, meanwhile=flower.look)


def progress_of(run_dir: Path) -> Progress:
    """What the folder says; a run is at its end when the last adapter is measured as well."""
    with closing(open_run(run_dir, clock=time.time)) as run:
        committed, last = run.committed or 0, _last_of(run_dir / "events.jsonl")
        finished = committed == run.config.run.last and last == "run.finished"
        ended = finished or (last == "run.stopped" and is_to_stop(run_dir))
        return Progress(committed, run.digest(committed) if ended else "")


def _last_of(log: Path) -> str:
    """The newest event about the beginning or the end of a run."""
    ends = ['"run.finished"', '"run.stopped"', '"run.started"']
    found = [str(event["event"]) for event in read_events(log, ends)]
    return found[-1] if found else ""


def _note(flower: Flower, run_dir: Path, event: str, **facts: str | int) -> None:
    def write() -> None:
        with closing(open_run(run_dir, clock=time.time)) as run:
            run.emit(event, **facts)

    _insist(flower, write)
