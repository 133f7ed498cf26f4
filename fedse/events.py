"""What a run says while it goes: named facts, never a text an agent saw or wrote."""

from typing import Protocol

Fact = int | float | str | bool | None


class Emit(Protocol):
    """Takes one event; the driver decides where it goes (log file, console, another process)."""

    def __call__(self, event: str, /, **facts: Fact) -> None: ...


def silent(event: str, /, **facts: Fact) -> None:
    """Takes every event and tells nobody."""
