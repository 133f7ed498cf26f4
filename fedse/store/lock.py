"""One process at a time works on a folder; the lock ends with the process, however that ends."""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from fedse.errors import StoreError, boundary
from fedse.waiting import wait_until

LOCK = ".lock"
# Checking whether the lock is held takes it for a moment.
PATIENCE_SECONDS, LOOK_SECONDS = 1.0, 0.05


def locked(folder: Path, *, busy: str, hint: str) -> AbstractContextManager[None]:
    """No other process holds `folder` meanwhile; if one does, the error says `busy`."""
    return in_turn(folder / LOCK, seconds=PATIENCE_SECONDS, busy=busy, hint=hint)


@contextmanager
def in_turn(lock: Path, *, seconds: float, busy: str, hint: str) -> Iterator[None]:
    """Nobody else holds the file `lock` meanwhile; whoever waits longer than `seconds` is told."""
    with boundary(StoreError, f"lock of {lock.parent}"):
        file = lock.open("ab")
    with file:
        if not take_lock(file, fcntl.LOCK_EX, seconds=seconds, every=LOOK_SECONDS):
            raise StoreError(busy, hint=hint)
        yield


def one_command(lock: Path, *, seconds: float, doing: str) -> AbstractContextManager[None]:
    """No other command is `doing` this; whoever waits longer than `seconds` learns what to end."""
    busy = f"another command has been {doing} for {seconds:.0f} s"
    return in_turn(lock, seconds=seconds, busy=busy, hint=f"wait for it, or end it: lsof {lock}")


def take_lock(file: BinaryIO, how: int, *, seconds: float, every: float) -> bool:
    """Whether the lock of kind `how` (shared or exclusive) on `file` was taken within `seconds`."""
    return wait_until(lambda: _try_lock(file, how), seconds=seconds, every=every)


def is_locked(folder: Path) -> bool:
    """Whether some process holds `folder` right now."""
    lock = folder / LOCK
    if not lock.is_file():
        return False
    with boundary(StoreError, f"lock of {folder}"), lock.open("rb") as file:
        return not _try_lock(file, fcntl.LOCK_SH)


def _try_lock(file: BinaryIO, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
