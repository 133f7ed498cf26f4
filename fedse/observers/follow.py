"""Pass on the events that another process writes into a run's log."""

import json
import threading
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

from fedse.events import Observer
from fedse.waiting import beside

# Seconds between two looks at the log.
PERIOD = 0.5


class NewLines:
    """The lines added to a log after `seen` bytes, by default from now on; it may not exist yet."""

    def __init__(self, log: Path, *, seen: int | None = None) -> None:
        self._log, self._seen = log, _size(log) if seen is None else seen

    def read(self) -> list[bytes]:
        """The lines since the last call; all lines if the log has become shorter."""
        if _size(self._log) < self._seen:  # it was full and has been restarted
            self._seen = 0
        data = b""
        if self._log.is_file():
            with self._log.open("rb") as file:
                file.seek(self._seen)
                data = file.read()
        # A line without its end is still being written.
        whole = data[: data.rfind(b"\n") + 1]
        self._seen += len(whole)
        return whole.splitlines()


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def followed(log: Path, observer: Observer) -> AbstractContextManager[None]:
    """Every line added to `log` meanwhile, the last one included, reaches `observer`."""
    return beside(partial(_show, NewLines(log), observer))


def _show(log: NewLines, observer: Observer, ended: threading.Event) -> None:
    last_look = False
    while not last_look:
        last_look = ended.wait(PERIOD)
        for line in log.read():
            # A process killed while writing leaves half a line, with the next one glued to it.
            try:
                entry = json.loads(line)
                event = entry["event"]
            except (ValueError, KeyError, TypeError):
                continue
            # If this event cannot be shown, as on a full disk, the next one may be.
            with suppress(OSError):
                observer(event, entry)
