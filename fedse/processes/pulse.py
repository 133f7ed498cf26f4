"""The sign by which a process at work shows that it gets somewhere.

It is a file, which is there as long as there is work and is touched with every move of a game and
every step of the optimiser.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BEAT_SECONDS = 1.0
"""A file is not touched more often than this."""

ROUND_LOOP = ".pulse"
"""In a run's folder, while the server's round loop works on it."""

Sign = Callable[[], object]
"""Something that changes with every sign of progress; None = none is expected now."""


class Pulse:
    """This process's sign of progress; a disk that takes no file must not stop the work."""

    def __init__(self, file: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._next = float("-inf")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Progress is expected inside, and none afterwards."""
        with suppress(OSError):
            self._file.touch()
        try:
            yield
        finally:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def beat(self) -> None:
        """There was progress."""
        now = self._clock()
        if now >= self._next:
            self._next = now + BEAT_SECONDS
            with suppress(OSError):
                os.utime(self._file)


def touched(file: Path) -> Sign:
    """The sign that a Pulse on `file` gives."""

    def sign() -> object:
        try:
            return file.stat().st_mtime_ns
        except OSError:
            return None

    return sign
