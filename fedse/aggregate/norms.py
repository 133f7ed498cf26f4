"""Lengths of long float32 vectors, summed in float64 without a second copy of them."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedse.types import FloatVector

Wide = NDArray[np.float64]

# Numbers per step; 8 MB in float64, small beside any real adapter.
BLOCK = 1 << 20


def blocks(size: int) -> Iterator[slice]:
    """Consecutive slices that cover `size` numbers."""
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))


def squared_norm(values: FloatVector) -> float:
    """The sum of squares; not finite exactly if one of the numbers is not."""
    total = 0.0
    for part in blocks(values.size):
        wide = values[part].astype(np.float64)
        total += float(np.dot(wide, wide))
    return total


def distance(here: FloatVector, there: FloatVector | Wide) -> float:
    """The Euclidean distance from `here` to `there`."""
    total = 0.0
    for part in blocks(there.size):
        step = there[part].astype(np.float64)
        step -= here[part]
        total += float(np.dot(step, step))
    return math.sqrt(total)
