"""Lengths: the sum of squares, with the same bits on any number of BLAS threads."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.norms import (
    BLOCK,
    CACHED,
    blocks,
    distance,
    distance_by_blocks,
    rough_square,
    squared_norm,
)

SIZE = 300_000
LENGTHS = f"""
import numpy as np
from fedse.aggregate.norms import distance, squared_norm
one, other = np.random.default_rng(1).normal(size=(2, {SIZE})).astype(np.float32)
print(squared_norm(one).hex(), distance(one, other).hex())
"""


def lengths(threads: int) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    found = subprocess.run(
        [sys.executable, "-c", LENGTHS], env=environment, capture_output=True, check=True
    )
    return found.stdout.decode()


def test_lengths_have_the_same_bits_with_one_thread_and_with_two():
    assert lengths(1) == lengths(2)


@given(st.integers(0, 3 * CACHED), st.integers(0))
def test_a_length_is_the_root_of_the_sum_of_squares(size: int, seed: int):
    one, other = np.random.default_rng(seed).normal(size=(2, size)).astype(np.float32)
    assert np.isclose(squared_norm(one), np.sum(one.astype(np.float64) ** 2), rtol=1e-12)
    assert distance(one, np.zeros_like(one)) ** 2 - squared_norm(one) <= 1e-12 * squared_norm(one)
    assert distance(one, other) == distance(other, one)


@given(st.integers(0, 3 * CACHED), st.integers(0))
def test_a_sum_of_squares_has_the_bits_of_one_step_after_another(size: int, seed: int):
    one, other = np.random.default_rng(seed).normal(size=(2, size)).astype(np.float32)
    squares = moved = 0.0
    for part in blocks(size, CACHED):
        wide = one[part].astype(np.float64)
        squares += float(np.dot(wide, wide))
        wide -= other[part]
        moved += float(np.dot(wide, wide))
    assert squared_norm(one) == squares
    assert distance(other, one) == math.sqrt(moved)


@given(st.integers(1, 3 * CACHED), st.integers(0), st.sampled_from([1e-30, 1e-3, 1.0, 1e10]))
def test_a_rough_sum_of_squares_is_right_to_a_hundredth(size: int, seed: int, scale: float):
    one = (np.random.default_rng(seed).normal(size=size) * scale).astype(np.float32)
    assert abs(rough_square(one) - squared_norm(one)) <= 0.01 * squared_norm(one) + 1e-20


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_rough_sum_of_squares_is_not_finite_where_it_cannot_be_told(bad: float):
    one = np.ones(CACHED + 5, np.float32)
    one[CACHED + 2] = bad
    assert not math.isfinite(rough_square(one))


def test_a_length_is_the_same_however_large_the_blocks_are():
    assert BLOCK % CACHED == 0
    one = np.random.default_rng(0).normal(size=BLOCK + 5).astype(np.float32)
    nowhere = np.zeros(BLOCK + 5, np.float32)
    assert distance_by_blocks(nowhere, one.__getitem__) ** 2 == np.sqrt(squared_norm(one)) ** 2
