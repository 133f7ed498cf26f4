"""One process at a time works on a folder; the lock ends with the process, however that ends."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fedse.errors import StoreError, boundary

LOCK = ".lock"


@contextmanager
def locked(folder: Path, *, busy: str, hint: str) -> Iterator[None]:
    """Nobody else holds `folder` meanwhile; if somebody does, the error says `busy`."""
    with boundary(StoreError, f"lock of {folder}"):
        file = (folder / LOCK).open("ab")
    with file:
        if not _taken(file):
            raise StoreError(busy, hint=hint)
        yield


def _taken(file: BinaryIO) -> bool:
    """Tried for a second: whoever looks whether it is held, holds it for a moment."""
    for _ in range(20):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def is_locked(folder: Path) -> bool:
    """Whether some process holds `folder` right now."""
    lock = folder / LOCK
    if not lock.is_file():
        return False
    with boundary(StoreError, f"lock of {folder}"), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
