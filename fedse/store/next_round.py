"""When a run's next round begins and what it waits for: one small file, replaced as a whole.

A second file asks the run to stop before its next round; who starts the run again removes it.
"""

from pathlib import Path

from fedse.store.files import write_durably
from fedse.types import Record

FILE, STOP = "next.json", "stop-after-round"


class NextRound(Record):
    """The round that begins next, or has begun."""

    round: int
    at: float
    """When it begins or began, or is tried again; seconds since 1970."""
    begun: bool = False
    news: dict[str, bool] | None = None
    """Which sites said whether they have something new; None = they were not asked yet."""
    reason: str = ""
    """What it waits for besides the time."""

    @property
    def having(self) -> frozenset[str]:
        """The sites with something new."""
        return frozenset(name for name, has in (self.news or {}).items() if has)


def read_next(run: Path) -> NextRound | None:
    """What the run's folder says; None = nothing that can be read, so nothing is waited for."""
    try:
        return NextRound.model_validate_json((run / FILE).read_bytes())
    except (OSError, ValueError):
        return None


def write_next(run: Path, planned: NextRound) -> None:
    write_durably(run / FILE, planned.model_dump_json().encode())


def ask_to_stop(run: Path) -> None:
    """The run finishes its open round and begins no other."""
    write_durably(run / STOP, b"")


def is_to_stop(run: Path) -> bool:
    return (run / STOP).exists()


def forget_stop(run: Path) -> None:
    """The run goes on, whatever was asked before."""
    (run / STOP).unlink(missing_ok=True)
