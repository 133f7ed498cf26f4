"""What a run reports while it goes on: named facts, never a text an agent saw or wrote."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

Fact = int | float | str | bool | None


class Emit(Protocol):
    """Takes one event; the driver decides where it goes (log file, console, another process)."""

    def __call__(self, event: str, /, **facts: Fact) -> None: ...


Observer = Callable[[str, dict[str, Fact]], None]
"""Receives each event's name and all its facts, after they have been written."""


def silent(event: str, /, **facts: Fact) -> None:
    """Takes every event and passes it to nobody."""


def read_events(log: Path, markers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The events in `log` whose line holds one of `markers`; none where there is no log yet.

    Only those lines are parsed: a long run has many more of other kinds.
    """
    if not log.is_file():
        return
    # A damaged byte costs its own line.
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if any(word in line for word in markers):
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a process killed while writing leaves half a line
                if isinstance(event, dict) and "event" in event:
                    yield event
