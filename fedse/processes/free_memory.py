"""Memory that Python has freed and the C library keeps for later."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """The operating system has what this process no longer uses, if the C library is glibc."""
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    if not sys.platform.startswith("linux"):
        return lambda pad: None
    # musl, for one, has no such function.
    found: Callable[[int], object] = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: None)
    return found
