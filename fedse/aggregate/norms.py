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
# Numbers converted to float64 at a time: 128 kB, which a core keeps in its second cache.
CONVERTED = 2 * CACHED


def blocks(size: int, step: int = BLOCK) -> Iterator[slice]:
    """Consecutive slices that cover `size` numbers."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def squared_norm(values: FloatVector | Wide) -> float:
    """The sum of squares; not finite exactly if one of the numbers is not."""
    total = 0.0
    for part in blocks(values.size, CONVERTED):
        total = _add_squares(total, values[part].astype(np.float64, copy=False))
    return total


def rough_square(values: FloatVector) -> float:
    """The sum of squares to a hundredth or 1e-20; not finite where float32 cannot hold a part."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _add_squares(0.0, values)


def _add_squares(total: float, values: FloatVector | Wide) -> float:
    """`total` and the squares, added up in steps of CACHED numbers."""
    whole = values.size // CACHED * CACHED
    steps, rest = values[:whole].reshape(-1, CACHED), values[whole:]
    # The same product as np.dot, of all steps in one call.
    for square in np.vecdot(steps, steps).tolist():
        total += square
    return total + float(np.dot(rest, rest)) if rest.size else total


def distance(here: FloatVector, there: FloatVector | Wide) -> float:
    """The Euclidean distance from `here` to `there`."""
    return distance_by_blocks(here, there.__getitem__, CONVERTED)


def distance_by_blocks(
    here: FloatVector, there: Callable[[slice], FloatVector | Wide], size: int = BLOCK
) -> float:
    """The Euclidean distance from `here` to what `there` gives for each block of that size."""
    total = 0.0
    room = np.empty(min(size, here.size))
    for part in blocks(here.size, size):
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
