"""Noise in whole numbers: exactly the discrete Gaussian distribution, and the same for a secret."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.privacy import discrete_gaussian as module
from fedse.privacy.discrete_gaussian import MOST, discrete_gaussian, words_of

SECRET = bytes(range(32))
FAR = 12
"""Standard deviations beyond which the weights are left out."""


def weights(sigma: int) -> dict[int, float]:
    """The probability of every number."""
    raw = {x: math.exp(-(x**2) / (2 * sigma**2)) for x in range(-FAR * sigma, FAR * sigma + 1)}
    return {x: one / sum(raw.values()) for x, one in raw.items()}


@pytest.mark.parametrize("sigma", [1, 2, 3, 10])
def test_numbers_come_as_often_as_they_should(sigma: int):
    """Chi-square of all numbers that are expected ten times or more, the rest as one."""
    count = 200_000
    drawn, expected = Counter(discrete_gaussian(SECRET, count, sigma).tolist()), weights(sigma)
    often = {x: count * p for x, p in expected.items() if count * p >= 10}
    cells = [(drawn[x], mean) for x, mean in often.items()]
    cells += [(count - sum(n for n, _ in cells), count - sum(often.values()))]
    found = sum((n - mean) ** 2 / mean for n, mean in cells if mean > 1)
    # Of a chi-square of k degrees of freedom, 5 standard deviations.
    assert abs(found - len(cells)) < 5 * math.sqrt(2 * len(cells)) + 2


@pytest.mark.parametrize("sigma", [1, 4, 1000, 873_127, MOST])
def test_moments_are_those_of_the_distribution(sigma: int):
    count = 100_000
    drawn = discrete_gaussian(SECRET, count, sigma).astype(np.float64)
    variance, fourth = float(sigma**2), 3.0 * sigma**4
    if sigma < 1000:
        variance, fourth = (sum(p * x**n for x, p in weights(sigma).items()) for n in (2, 4))
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / count)
    assert abs(drawn.var() / variance - 1) < 5 * math.sqrt(2 / count)
    assert abs((drawn**4).mean() / fourth - 1) < 5 * math.sqrt(96 / 9 / count)


class Undecided(Exception):
    """The tosses that were given are used up."""


def tossed(tosses: Sequence[bool], above: int, below: int) -> tuple[bool, Fraction]:
    """What a coin of exp(-above / below) shows if its parts show these, and how likely they are."""
    left, weight = list(tosses), Fraction(1)

    def part(words: object, size: int, bound: int) -> np.ndarray:
        nonlocal weight
        if bound == 1 and below != 1:
            return np.zeros(size, dtype=np.int64)
        if not left:
            raise Undecided
        chance = Fraction(above, below) if bound == below else Fraction(1, bound)
        shows = left.pop(0)
        weight *= chance if shows else 1 - chance
        return np.array([0 if shows else bound - 1] * size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_below", part)
        heads = module._exponential_coin(lambda count: None, np.array([above]), below)
    return bool(heads[0]), (Fraction(0) if left else weight)


def test_a_coin_shows_heads_with_its_exact_probability():
    """All ways in which up to seven parts can fall, each with its weight: no chance is left."""
    above, below, heads, decided = 30, 101, Fraction(0), Fraction(0)
    for count in range(1, 8):
        for tosses in product([False, True], repeat=count):
            try:
                shown, weight = tossed(tosses, above, below)
            except Undecided:
                continue
            decided += weight
            heads += weight * shown
    exact = math.exp(-above / below)
    assert 1 - decided < 1e-3
    assert float(heads) <= exact <= float(heads + 1 - decided)


@given(bound=st.integers(1, 2**62), seed=st.binary(min_size=32, max_size=32))
@settings(max_examples=50)
def test_uniform_numbers_are_below_their_bound(bound: int, seed: bytes):
    drawn = module._below(words_of(seed), 200, bound)
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) < bound
    if bound > 2**20:
        assert abs(float(drawn.astype(np.float64).mean()) / bound - 0.5) < 0.15


def test_the_same_secret_gives_the_same_numbers_and_another_one_others():
    one, again = (discrete_gaussian(SECRET, 1000, 50).tolist() for _ in range(2))
    assert one == again
    assert one != discrete_gaussian(bytes(32), 1000, 50).tolist()
    assert one[:10] == [discrete_gaussian(SECRET, 1000, 50)[i] for i in range(10)]


@pytest.mark.parametrize("sigma", [0, -1, MOST + 1])
def test_a_spread_without_a_meaning_is_refused(sigma: int):
    with pytest.raises(ValueError, match="sigma must be from 1"):
        discrete_gaussian(SECRET, 1, sigma)


def test_sums_of_shares_spread_as_one_of_the_whole_spread():
    """arXiv 2102.06387: three shares of variance s^2 are, for any use, one of variance 3 s^2."""
    sigma, count = 5, 200_000
    shares = [discrete_gaussian(bytes([i]) * 32, count, sigma) for i in range(3)]
    total = Counter(np.sum(shares, axis=0).tolist())
    raw = {x: math.exp(-(x**2) / (2 * 3 * sigma**2)) for x in range(-100, 101)}
    expected = {x: count * one / sum(raw.values()) for x, one in raw.items()}
    often = {x: mean for x, mean in expected.items() if mean >= 10}
    found = sum((total[x] - mean) ** 2 / mean for x, mean in often.items())
    assert abs(found - len(often)) < 5 * math.sqrt(2 * len(often)) + 2
