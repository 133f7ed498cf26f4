"""Whether a running process makes progress; one that hangs is distinguished from one that is slow.

Only whether a sign of progress changed counts, so no two clocks are compared, and the time in which
nobody looked, as on a machine that slept, does not count as silence.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

import psutil

from fedse.processes.pulse import Sign

MOST_SECONDS = 10.0
"""The time between two looks counts as at most this."""
LOOK_SECONDS = 5.0


class SilenceWatch:
    """How long a sign has been the same; 0 `seconds` = there is no limit."""

    def __init__(self, sign: Sign, seconds: float, what: str, *, every: float = 1.0) -> None:
        self._sign, self._seconds, self._what, self._every = sign, seconds, what, every
        self.reset()

    def reset(self) -> None:
        """A new process, of which nothing is known."""
        self._last: object = None
        self._looked: float | None = None
        self._silent = 0.0

    def problem(self, now: float) -> str:
        """What is wrong with the process; empty while nothing is."""
        if not self._seconds or (self._looked is not None and now < self._looked + self._every):
            return ""
        sign = self._sign()
        if sign is None or sign != self._last or self._looked is None:
            self._last, self._silent = sign, 0.0
        else:
            self._silent += min(now - self._looked, max(MOST_SECONDS, self._every))
        self._looked = now
        return f"{self._what} for {self._silent:.0f} s" if self._silent >= self._seconds else ""


class Watchdog:
    """Says why a process should be killed and started again."""

    def __init__(self, *, stopped: float, others: Sequence[SilenceWatch] = ()) -> None:
        self._leader = 0
        halted = SilenceWatch(self._halted, stopped, "is stopped", every=LOOK_SECONDS)
        self._watches = [halted, *others]

    def begin(self, leader: int) -> None:
        """From now on the group of this process is watched."""
        self._leader = leader
        for watch in self._watches:
            watch.reset()

    def problem(self, now: float) -> str:
        found = [watch.problem(now) for watch in self._watches]
        return next(filter(None, found), "")

    def _halted(self) -> object:
        """Those of the group that a signal has stopped (SIGSTOP, Ctrl-Z)."""
        return stopped_in(self._leader) or None


def stopped_in(group: int) -> tuple[int, ...]:
    """Members of a process group that do not run because a signal stopped them."""
    return tuple(sorted(pid for pid in psutil.pids() if _is_stopped(pid, group)))


def _is_stopped(pid: int, group: int) -> bool:
    with suppress(psutil.Error, OSError):
        return os.getpgid(pid) == group and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    return False
