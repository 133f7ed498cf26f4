"""Whether a site can be opened, found out in a process that ends at once.

To open a site takes torch and the base model. A site that waits for its first request needs neither
in memory, and yet its owner must learn at the start what is missing.
"""

import faulthandler
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from fedse.errors import MachineError

STDERR = 2
WHEN = ("now", "later", "only")
OPEN_HELP = (
    "when sites are opened: the first one now; later, at their first requests, after a process of "
    "its own has shown that the first one can be opened; or only show that"
)
HINT = "see whether the machine ran out of memory: journalctl -k, dmesg"
"""What to do about a process that nobody here ended."""


class Opening(NamedTuple):
    """When a worker opens its sites."""

    trial: Sequence[str] = ()
    """The command that shows whether they can be opened; empty = this process opens them at once.
    """
    only: bool = False
    """This process ends when the first site is open."""


def opening_as(when: str, argv: Sequence[str]) -> Opening:
    """`when` is one of WHEN, `argv` are all arguments of the worker that was told so."""
    command = [sys.executable, "-P", "-m", "fedse.site.worker", *argv, "--open", "only"]
    return Opening(command if when == "later" else (), only=when == "only")


def require_opens(command: Sequence[str]) -> None:
    """`command`, which opens the sites and ends, has succeeded; else this process ends as it did.

    Why is in what it wrote to stderr, as this process would have. Afterwards `tell_where` holds.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        with _traced(process):
            code = process.wait()
    finally:
        process.kill()
        process.wait()
    if code < 0:
        ended = signal.Signals(-code).name
        raise MachineError(f"the process that opened the site was ended by {ended}", hint=HINT)
    if code:
        sys.exit(code)


@contextmanager
def _traced(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Whoever asks this process where it is hears where the other one is."""

    def ask(*_: Any) -> None:
        process.send_signal(signal.SIGUSR1)

    # Python's own signal handlers know nothing of this one and would remove it for good.
    faulthandler.unregister(signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
        tell_where()


def tell_where() -> None:
    """Whoever sends SIGUSR1 finds in the log of this process where each of its threads is."""
    faulthandler.register(signal.SIGUSR1, file=STDERR, all_threads=True)
