"""Sums without rounding: the same bits in any order and in any grouping.

A sum is kept as planes of float64: the first is the running sum, the next the running sum of what
rounding took from it, and so on (Knuth's TwoSum, exact for any two numbers whose sum does not
overflow). What is left in the end is nothing, so the planes together are the sum itself. Planes can
be added to planes. One rounding at the end makes one float64 of them.
"""

from collections.abc import Iterable, Sequence
from math import fsum

import numpy as np

from fedse.aggregate.norms import CACHED, Wide, blocks

Planes = list[Wide]
"""Arrays of one length whose element-wise sum is exact."""

MOST_PLANES = 24
"""Each plane is 2^53 times smaller than the one before: from 2^128, the range of float32 and more
votes than there are, to 2^-1074, the smallest float64, there are no more."""


def add_exactly(planes: Planes, values: Wide, at: slice) -> None:
    """The sum has grown by `values` in the places `at`; nothing was rounded away."""
    carry = values
    for plane in planes:
        carry = _two_sum(plane[at], carry)
        if not carry.any():
            return
    lower = np.zeros(planes[0].size)
    lower[at] = carry
    planes.append(lower)


def add_planes(planes: Planes, others: Iterable[Wide]) -> None:
    """The sum has grown by the sum that `others` are."""
    for other in others:
        for part in blocks(other.size, CACHED):
            add_exactly(planes, other[part], part)


def rounded(planes: Sequence[Wide]) -> Wide:
    """The float64 nearest to each sum; it depends on the sum alone, not on its planes."""
    if len(planes) == 1:
        return planes[0].copy()
    # One addition of two numbers is rounded correctly.
    total: Wide = planes[0] + planes[1]
    rest = planes[2:]
    if rest:
        for place in np.flatnonzero(np.any(rest, axis=0)):
            total[place] = fsum(plane[place] for plane in planes)
    return total


def settled(planes: Sequence[Wide]) -> Planes:
    """The same sums in the fewest planes, each the rounding of what the ones before it left.

    Equal sums have equal planes, however they were added up. At least one plane remains.
    """
    rest = [plane.copy() for plane in planes]
    found = [rounded(rest)]
    while True:
        add_planes(rest, [-found[-1]])
        rest = [plane for plane in rest if plane.any()]
        if not rest:
            return found
        lower = rounded(rest)
        if not lower.any():
            return found
        found.append(lower)


def _two_sum(plane: Wide, values: Wide) -> Wide:
    """What rounding took from `plane` + `values`, which `plane` now holds (Knuth, TAOCP 4.2.2)."""
    total = plane + values
    shadow = total - plane
    lost: Wide = values - shadow
    shadow -= total
    # -(shadow - total) = total - shadow is the part of the old plane that the total has.
    shadow += plane
    lost += shadow
    plane[:] = total
    return lost
