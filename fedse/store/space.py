"""Room on the disk: whether a folder has it, and what is said for as long as it has none."""

import errno
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from fedse.errors import StoreError, boundary
from fedse.waiting import wait_until

SPARE_BYTES = 16 << 20
"""For logs, databases and small files, beside the adapters."""
PROBE_BYTES = 1 << 16
FULL = {errno.ENOSPC, errno.EDQUOT}
# The second: the file that its processes share cannot grow, which it calls an I/O error.
FULL_IN_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
UNUSABLE = {*FULL, errno.EROFS, errno.EIO}
"""Of a disk that may be mended; one that belongs to another user is not waited for."""
LOOK_SECONDS, REMIND_SECONDS = 2.0, 600.0


class Need(NamedTuple):
    """What is going to be written, at the least."""

    folder: Path
    bytes: int
    what: str
    """For a sentence: what needs it."""


def answer_room(home: Path, adapter_bytes: int) -> Need:
    """What must be free in a site's home before a round is worked on, at the least."""
    # Moments and an answer, each in the database and, until that is written over, in its log.
    return Need(home, 4 * adapter_bytes + SPARE_BYTES, "an answer")


def is_full(error: BaseException) -> bool:
    """Whether the error, or what caused it, is that the disk or its quota is full."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL:
            return True
        if isinstance(cause, sqlite3.Error) and _code(cause) in FULL_IN_SQLITE:
            return True
        cause = cause.__cause__
    return False


def _code(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code


def shortage(need: Need) -> str:
    """Which disk has how much less than is needed, and for what; empty where there is room."""
    folder, needed, what = need
    with boundary(StoreError, f"{folder}"):
        return _shortage(folder, needed, what)


def _shortage(folder: Path, needed: int, what: str) -> str:
    free = shutil.disk_usage(folder).free
    wanted = f"{what} needs at least {_megabytes(needed)} there"
    if free < needed:
        return f"the disk of {folder} is full: {_megabytes(free)} free, {wanted}"
    try:
        # A quota, and a lack of inodes, shows only when something is written.
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        return f"the disk of {folder} takes no more: {error.strerror}, {wanted}"
    return ""


def require_room(need: Need) -> None:
    """There is room for what is needed, or the error says where there is not."""
    if problem := shortage(need):
        full = OSError(errno.ENOSPC, "no room")
        raise StoreError(problem, hint="free some space there; it is tried again") from full


class RoomWatch:
    """Knows whether there is room, and tells when there is none any more and when there is again.

    Times are in seconds of a clock that does not go back.
    """

    def __init__(self, need: Need, *, tell: Callable[[str], None]) -> None:
        self._need, self._tell = need, tell
        self._next, self._remind = float("-inf"), float("-inf")
        self._since: float | None = None

    def lacking(self, now: float) -> bool:
        """Whether there is no room, as of LOOK_SECONDS ago at the most."""
        if now >= self._next:
            self._next = now + LOOK_SECONDS
            self._look(now)
        return self._since is not None

    def _look(self, now: float) -> None:
        problem = shortage(self._need)
        if not problem:
            if self._since is not None:
                waited = now - self._since
                self._tell(f"{self._need.folder} has room again after {waited:.0f} s: going on")
            self._since = None
            return
        if self._since is None or now >= self._remind:
            self._remind = now + REMIND_SECONDS
            self._tell(f"{problem}. Nothing committed is lost. Free some space: it goes on then")
        self._since = now if self._since is None else self._since

    def wait(self) -> None:
        """There is room, however long that took."""
        wait_until(lambda: not self.lacking(time.monotonic()), seconds=None, every=LOOK_SECONDS)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
