"""A process that the kernel kills at one statement of its databases."""

import os
import signal
from collections.abc import Callable

from fedse.store.database import Database


def lived(
    begin: Callable[[], Callable[[], None]], die_at: int = 0, *, after: bool = False
) -> tuple[int, int]:
    """How a child ended that lives what `begin` returns, and how many statements that took; 0 = it
    was killed, before its statement number `die_at` or after it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            live = begin()
            count = _count_and_die(die_at, after=after)
            live()
            os.write(writing, str(count()).encode())
            os._exit(0)
        finally:  # a failure must not go on with pytest's other tests in this process
            os._exit(1)
    os.close(writing)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(reading) as told:
        return status, int(told.read() or 0)


def _count_and_die(die_at: int, *, after: bool) -> Callable[[], int]:
    execute, count = Database.execute, 0

    def counted(self: Database, *given: object):
        nonlocal count
        count += 1
        if count == die_at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = execute(self, *given)
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    Database.execute = counted  # type: ignore[method-assign]
    return lambda: count
