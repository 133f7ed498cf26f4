"""Numbers, times and names as people write them."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fedse.store.next_round import NextRound

# A line names no more sites than this.
MOST_NAMES = 6


def counted(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def megabytes(count: float) -> str:
    """Bytes as MB, with two decimals below 10 MB and none above."""
    return f"{count / 1e6:.2f} MB" if count < 1e7 else f"{count / 1e6:.0f} MB"


def waiting_text(names: Sequence[str], *, of: int) -> str:
    """`waiting for 2 of 5 sites: south, west`."""
    if not names:
        return f"all {counted(of, 'site')} have answered"
    named = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"waiting for {len(names)} of {counted(of, 'site')}: {named}{more}"


def next_text(planned: NextRound, *, now: float) -> str:
    """`round 6 begins at 02:00 UTC (in 3 h)`, or what it waits for and when it is tried again."""
    left, date = planned.at - now, datetime.fromtimestamp(planned.at, UTC)
    day = "" if date.date() == datetime.fromtimestamp(now, UTC).date() else f"{date:%Y-%m-%d} "
    when = f"at {day}{date:%H:%M} UTC (in {span(left)})"
    if planned.reason:
        return f"round {planned.round} waits: {planned.reason}; tried again {when}"
    return f"round {planned.round} begins {when}"


def span(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `2 days`: about so long."""
    for unit, size in (("day", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit != "day" and seconds >= size):
            number = round(seconds / size)
            return f"{number} days" if unit == "day" else f"{number} {unit}"
    return f"{seconds:.0f} s"


def clock_time(seconds: float, *, now: float) -> str:
    """A time in seconds since 1970 as a clock here shows it; with the date if it is not today's."""
    then = time.localtime(seconds)
    today = then[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", then)


def next_steps(path: Path, *, by_name: bool, env: str = "wordle --option words=small") -> str:
    """Commands to try after the demo; a run kept elsewhere is named by its path.

    `env`: an environment of the run as `fedse env play` takes it, with the same tasks.
    """
    steps = [
        ("a page about this run", f"fedse report {'last' if by_name else path} --open"),
        ("what the agent saw and did", f"fedse view {'last' if by_name else path}"),
        ("the new agent in fresh games", f"fedse eval {'last' if by_name else path}"),
        ("a game of this kind, by you", f"fedse env play {env}"),
        ("all runs so far", "fedse runs" if by_name else f"fedse runs {path.parent}"),
        ("your own settings", f"fedse run {path / 'config.toml'} --set run.rounds=8"),
    ]
    return "\n".join(["", "next", *(f"  {about:<28}  {command}" for about, command in steps)])
