"""Lengths of long float32 vectors, summed in float64 without a second copy of them."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedse.types import FloatVector

Wide = NDArray[np.float64]

# Numbers per step; 8 MB in float64, small beside any real adapter.
BLOCK = 1 << 20
# Numbers per step; 64 kB in float64, which a core keeps at hand, and too few for OpenBLAS to spread
# over threads. Lengths that decide by how much an update is shortened are sums of such steps, so
# they have the same bits on any number of cores, and another number here is another last bit there.
CACHED = 1 << 13


def blocks(size: int, step: int = BLOCK) -> Iterator[slice]:
    """Consecutive slices that cover `size` numbers."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def squared_norm(values: FloatVector | Wide) -> float:
    """The sum of squares; not finite exactly if one of the numbers is not."""
    return _add_squares(0.0, values)


def _add_squares(total: float, values: FloatVector | Wide) -> float:
    for part in blocks(values.size, CACHED):
        wide = values[part].astype(np.float64, copy=False)
        total += float(np.dot(wide, wide))
    return total


def distance(here: FloatVector, there: FloatVector | Wide) -> float:
    """The Euclidean distance from `here` to `there`."""
    return distance_by_blocks(here, there.__getitem__)


def distance_by_blocks(here: FloatVector, there: Callable[[slice], FloatVector | Wide]) -> float:
    """The Euclidean distance from `here` to what `there` gives for each block."""
    total = 0.0
    room = np.empty(min(BLOCK, here.size))
    for part in blocks(here.size):
        step = room[: part.stop - part.start]
        step[:] = there(part)
        step -= here[part]
        total = _add_squares(total, step)
    return math.sqrt(total)


def update_product(start: FloatVector, one: FloatVector, other: FloatVector) -> float:
    """The scalar product of two updates of `start`; the same bits on any number of cores."""
    total = 0.0
    for part in blocks(start.size, CACHED):
        here = start[part].astype(np.float64)
        total += float(np.dot(one[part] - here, other[part] - here))
    return total
