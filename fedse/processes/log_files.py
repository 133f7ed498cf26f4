"""Logs of processes: one file each, the newest ones, none longer than it may be."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

KEPT_LOGS = 20
MOST_BYTES = 16 << 20
"""A log that is longer becomes NAME.log.1, in place of the one before, and begins anew."""
LOOK_SECONDS = 60.0


def new_log(logs: Path, name: str) -> Path:
    """NAME.log, then NAME-2.log and so on; the logs of the last KEPT_LOGS processes are kept."""
    numbered = re.compile(rf"{re.escape(name)}(?:-(\d+))?\.log")
    logs_by_number = {
        int(m[1] or 1): f for f in logs.iterdir() if (m := numbered.fullmatch(f.name))
    }
    for number in sorted(logs_by_number)[: 1 - KEPT_LOGS]:
        logs_by_number[number].unlink(missing_ok=True)
        earlier(logs_by_number[number]).unlink(missing_ok=True)
    number = max(logs_by_number, default=0) + 1
    return logs / (f"{name}.log" if number == 1 else f"{name}-{number}.log")


def earlier(log: Path) -> Path:
    """Where the part before is kept."""
    return log.with_name(f"{log.name}.1")


class LogLimit:
    """Keeps each log of a folder from growing far beyond `most` bytes; call `look` regularly."""

    def __init__(self, folder: Path, *, most: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most
        self._next = float("-inf")

    def look(self, now: float) -> None:
        """`now` is in seconds of a clock that does not go back."""
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        for log in self._folder.glob("*.log"):
            # A full disk or a file that went away is no reason to stop what is being logged.
            with suppress(OSError):
                if log.stat().st_size > self._most:
                    _begin_anew(log)


def _begin_anew(log: Path) -> None:
    """The writer keeps its file open and appends, so the file stays and its content moves.

    A line that is written in between is lost.
    """
    beside = log.with_name(f".{log.name}.1")
    shutil.copy(log, beside)
    beside.replace(earlier(log))
    with log.open("r+b") as file:
        file.truncate()
