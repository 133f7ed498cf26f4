"""Whole numbers for updates: the range that is never left, the error that is never exceeded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.errors import AdapterRejected
from fedse.secure_sum.fixed_point import FixedPoint, decode, encode, require_bounded_mean

START = np.random.default_rng(0).standard_normal(50).astype(np.float32)


def test_places_of_small_examples():
    assert FixedPoint(8.0, 10).places == 24
    assert FixedPoint(1.0, 1).places == 30
    assert FixedPoint(1.0, 2).places == 29
    assert FixedPoint(1.0, 4).unit == 2.0**-28


@given(bound=st.floats(1e-3, 1e4), members=st.integers(1, 1000))
def test_the_sum_of_all_members_stays_in_its_range_and_one_place_more_would_not(
    bound: float, members: int
):
    form = FixedPoint(bound, members)
    longest = np.zeros(3, dtype=np.float32), np.array([np.float32(bound), 0, 0], dtype=np.float32)
    largest = int(encode(*longest, form)[0])
    assert largest * members <= 2**31 - 1
    assert 2 * (largest + 2) * members >= 2**31 - 1 - 4 * members


@given(seed=st.integers(0, 10**6), members=st.integers(1, 20))
def test_the_mean_is_within_half_a_unit_of_the_exact_one(seed: int, members: int):
    form, draw = FixedPoint(8.0, members), np.random.default_rng(seed)
    ends = [(START + 0.1 * draw.standard_normal(50)).astype(np.float32) for _ in range(members)]
    total = np.sum([encode(START, end, form) for end in ends], axis=0, dtype=np.uint32)
    exact = np.mean([end.astype(np.float64) for end in ends], axis=0)
    found = decode(total, START, form, count=members)
    # And half a unit of float32 in the last place, at most 2^-22 for numbers below 4.
    assert np.max(np.abs(found - exact)) <= form.unit / 2 + 2.0**-22
    require_bounded_mean(total, form, count=members)


def test_an_update_beyond_the_bound_is_shortened_to_it():
    form = FixedPoint(2.0, 3)
    zero, far = np.zeros(2, dtype=np.float32), np.array([30, 40], dtype=np.float32)
    shortened = decode(encode(zero, far, form), zero, form, count=1)
    np.testing.assert_allclose(shortened, [1.2, 1.6], atol=form.unit)
    near = np.array([1.2, -1.6], dtype=np.float32) / 2
    kept = decode(encode(zero, near, form), zero, form, count=1)
    np.testing.assert_allclose(kept, near, atol=form.unit)


def test_a_longer_step_goes_beyond_the_mean():
    form, zero = FixedPoint(2.0, 3), np.zeros(1, dtype=np.float32)
    encoded = encode(zero, np.array([0.5], dtype=np.float32), form)
    assert decode(encoded, zero, form, count=1, step=2.0).tolist() == [1.0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_not_sent(wrong: float):
    end = START.copy()
    end[3] = wrong
    with pytest.raises(AdapterRejected, match="not finite"):
        encode(START, end, FixedPoint(8.0, 3))


def test_a_mean_that_bounded_updates_cannot_have_is_rejected():
    form = FixedPoint(2.0, 3)
    total = np.full(1000, int(1.0 / form.unit), dtype=np.uint32)
    with pytest.raises(AdapterRejected, match="the mean of 3 updates has norm"):
        require_bounded_mean(total, form, count=3)
    require_bounded_mean(total[:30], form, count=3)
