"""Wait until a condition holds, for a limited time, and do other work meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat

from tenacity import Retrying, retry_if_not_result, stop_after_delay, stop_never, wait_fixed


def wait_until(
    holds: Callable[[], bool],
    *,
    seconds: float | None,
    every: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> bool:
    """Whether `holds` became true within `seconds`; None = wait without limit.

    It is checked at once and then after each pause of `every` seconds, so at least once and up to
    one pause after the time is over. `meanwhile` is called before each pause; an error in either
    ends the waiting.
    """
    # Mostly it holds, and to prepare the waiting costs more than to ask.
    if holds():
        return True
    looks = chain([False], (holds() for _ in repeat(None)))
    waiting = Retrying(
        retry=retry_if_not_result(bool),
        stop=stop_never if seconds is None else stop_after_delay(seconds),
        wait=wait_fixed(every),
        before_sleep=lambda _: meanwhile(),
        retry_error_callback=lambda _: False,
    )
    return bool(waiting(lambda: next(looks)))


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` is done in a thread of its own meanwhile; its event says when to end."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
