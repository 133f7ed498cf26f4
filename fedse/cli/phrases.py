"""Numbers, times and names as people write them."""

import time
from collections.abc import Sequence

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


def clock_time(seconds: float, *, now: float) -> str:
    """A time in seconds since 1970 as a clock here shows it; with the date if it is not today's."""
    then = time.localtime(seconds)
    today = then[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", then)
