"""Show the events another process writes into a run's log, as if they happened here."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedse.events import Observer

# Seconds between two looks at the log.
PERIOD = 0.5


@contextmanager
def followed(log: Path, observer: Observer) -> Iterator[None]:
    """Every line added to `log` meanwhile, the last one included, reaches `observer`."""
    ended = threading.Event()
    reader = threading.Thread(target=_read, args=(log, observer, ended), daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()


def _read(log: Path, observer: Observer, ended: threading.Event) -> None:
    seen = log.stat().st_size if log.exists() else 0
    last_look = False
    while not last_look:
        last_look = ended.wait(PERIOD)
        data = b""
        if log.exists():
            with log.open("rb") as file:
                file.seek(seen)
                data = file.read()
        # A line without its end is still being written.
        whole = data[: data.rfind(b"\n") + 1]
        seen += len(whole)
        for line in whole.splitlines():
            # A process killed while writing leaves half a line, with the next one glued to it.
            try:
                entry = json.loads(line)
                event = entry["event"]
            except (ValueError, KeyError, TypeError):
                continue
            # Where it cannot be shown, as on a full disk, the next one may be.
            with suppress(OSError):
                observer(event, entry)
