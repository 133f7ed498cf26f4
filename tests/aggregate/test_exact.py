"""Sums without rounding: against rational numbers, in any order and in any grouping."""

from fractions import Fraction
from math import fsum
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.exact import MOST_PLANES, add_exactly, add_planes, rounded, settled
from fedse.aggregate.norms import CACHED, Wide

WHOLE = slice(0, 1)

# The magnitudes that votes may have (1e30) down to the smallest number there is.
numbers = st.floats(-1e30, 1e30, allow_nan=False, width=64)
lists = st.lists(numbers, min_size=1, max_size=40)


def planes_of(values: list[float]) -> list[Wide]:
    planes = [np.zeros(1)]
    for value in values:
        add_exactly(planes, np.array([value]), WHOLE)
    return planes


def exact(planes: list[Wide]) -> Fraction:
    return sum((Fraction(float(plane[0])) for plane in planes), Fraction(0))


@given(values=lists)
def test_nothing_is_rounded_away(values: list[float]):
    planes = planes_of(values)
    assert exact(planes) == sum(map(Fraction, values))
    assert len(planes) <= MOST_PLANES


@given(values=lists)
def test_the_one_rounding_is_the_nearest_number(values: list[float]):
    assert rounded(planes_of(values)).tolist() == [fsum(values)]


@given(values=lists, cut=st.integers(0, 40), order=st.integers(0, 10**6))
def test_equal_sums_have_equal_planes(values: list[float], cut: int, order: int):
    """Added one by one, or shuffled in two groups whose sums are added."""
    shuffled = Random(order).sample(values, len(values))
    together = planes_of(shuffled[:cut])
    add_planes(together, settled(planes_of(shuffled[cut:])))
    first, second = (settled(planes) for planes in (planes_of(values), together))
    assert [plane.tobytes() for plane in first] == [plane.tobytes() for plane in second]
    assert exact(first) == sum(map(Fraction, values))


@pytest.mark.parametrize(
    ("values", "planes"),
    [
        ([2.0**60, 1.0, -(2.0**60)], [1.0]),
        ([2.0**60, 1.0], [2.0**60, 1.0]),
        ([1.0, 2.0**-60, 2.0**-120], [1.0, 2.0**-60, 2.0**-120]),
        ([1.0, -1.0], [0.0]),
        ([1e16, 1.0, -1e16, -1.0], [0.0]),
        ([-0.0], [0.0]),
    ],
)
def test_exact_small_numbers(values: list[float], planes: list[float]):
    found = settled(planes_of(values))
    assert [plane.tolist() for plane in found] == [[number] for number in planes]
    assert not np.signbit(found[0][0])


def test_the_smallest_plane_breaks_a_tie():
    """1 + 2^-53 lies half-way between two numbers; rounded twice the sum would become 1."""
    planes = planes_of([1.0, 2.0**-53, 2.0**-106])
    assert len(planes) == 3
    assert rounded(planes).tolist() == [1 + 2.0**-52]


def test_each_number_has_its_own_sum():
    """Over several blocks, of which one needs a second plane and one a third."""
    size = 3 * CACHED
    planes, added = [np.zeros(size)], [np.zeros(size) for _ in range(3)]
    added[0][:], added[1][CACHED + 5], added[2][-1] = 1.0, 2.0**-80, 2.0**-140
    added[1][-1] = 2.0**-70
    add_planes(planes, added)
    assert len(planes) == 3
    assert [float(plane[-1]) for plane in planes] == [1.0, 2.0**-70, 2.0**-140]
    assert [float(plane[CACHED + 5]) for plane in planes] == [1.0, 2.0**-80, 0.0]
    assert np.array_equal(rounded(planes), np.ones(size))
