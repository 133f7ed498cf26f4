"""Paired statistics against published numbers, numbers done by hand, and simulated truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.stats.paired import (
    holm,
    mcnemar,
    minimum_detectable,
    paired_difference,
    paired_differences,
    two_proportions,
)


# Sums of binomial coefficients over powers of two, by hand.
@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [(0, 0, 1.0), (3, 3, 1.0), (0, 5, 2 / 32), (1, 9, 22 / 1024), (9, 1, 22 / 1024),
     (2, 6, 74 / 256), (0, 1, 1.0)],
)  # fmt: skip
def test_mcnemar_exact(better: int, worse: int, p: float) -> None:
    assert mcnemar(better, worse) == pytest.approx(p, rel=1e-12)


def test_mcnemar_of_many_games_is_the_normal_tail() -> None:
    """Two standard deviations, with continuity correction: 2 (1 - Phi(1.98))."""
    assert mcnemar(5100, 4900) == pytest.approx(math.erfc(199 / 100 / math.sqrt(2)), rel=0.01)


def test_two_proportions() -> None:
    """56 of 70 and 48 of 80: pooled 104/150, z = 2.651."""
    z = 0.2 / math.sqrt(104 / 150 * 46 / 150 * (1 / 70 + 1 / 80))
    assert two_proportions(56, 70, 48, 80) == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert two_proportions(3, 3, 5, 5) == 1.0
    with pytest.raises(ValueError, match="4 of 3"):
        two_proportions(4, 3, 1, 2)


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": 0.9, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_order_and_lies_between_none_and_bonferroni(p: dict[str, float]) -> None:
    adjusted = holm(p)
    assert list(adjusted) == list(p)
    for name in p:
        assert p[name] <= adjusted[name] <= min(1.0, len(p) * p[name])
        assert all(adjusted[name] <= adjusted[other] for other in p if p[name] < p[other])


# Fleiss 1981, sample sizes per group without continuity correction, alpha 0.05, power 0.8 or 0.9.
@pytest.mark.parametrize(
    ("n", "p", "d", "power"),
    [(388, 0.5, 0.1, 0.8), (199, 0.1, 0.1, 0.8), (152, 0.25, 0.15, 0.8), (519, 0.5, 0.1, 0.9),
     (388, 0.6, 0.1, 0.8)],
)  # fmt: skip
def test_minimum_detectable_published(n: int, p: float, d: float, power: float) -> None:
    assert minimum_detectable(n, p, power=power) <= d < minimum_detectable(n - 2, p, power=power)


def test_minimum_detectable_paired_by_hand() -> None:
    """Connor: (1.960 sqrt(0.4) + 0.842 sqrt(0.4 - 0.04))^2 / 0.04 = 76.1 games find 0.2."""
    assert minimum_detectable(77, 0.5, discordant=0.4) <= 0.2
    assert minimum_detectable(76, 0.5, discordant=0.4) > 0.2


def test_too_few_games_find_nothing() -> None:
    assert minimum_detectable(0, 0.5) == math.inf
    assert minimum_detectable(2, 0.5) == math.inf
    assert minimum_detectable(2, 0.5, discordant=0.1) == math.inf


@given(st.integers(10, 5000), st.floats(0.05, 0.95))
def test_more_games_find_less(n: int, p: float) -> None:
    assert minimum_detectable(4 * n, p) < minimum_detectable(n, p)
    unpaired, independent = minimum_detectable(1000, p), 2 * p * (1 - p)
    # Methods whose successes are unrelated gain nothing by pairing; related ones do.
    assert minimum_detectable(1000, p, discordant=independent / 4) < unpaired


blocks = st.integers(1, 4).flatmap(
    lambda seeds: st.lists(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12),
        min_size=seeds,
        max_size=seeds,
    )
)


@settings(max_examples=50)
@given(blocks, st.integers(0, 3))
def test_difference_laws(pairs: list[list[tuple[bool, bool]]], seed: int) -> None:
    a, b = ([[pair[side] for pair in block] for block in pairs] for side in (0, 1))
    found = paired_difference(a, b, seed=seed, resamples=400)
    games = [pair for block in pairs for pair in block]
    assert found.value == pytest.approx(sum(x - y for x, y in games) / len(games))
    assert -1 <= found.low <= found.high <= 1
    assert 0 < found.p <= 1
    assert found == paired_difference(a, b, seed=seed, resamples=400), "the seed decides"
    turned = paired_difference(b, a, seed=seed, resamples=400)
    assert turned.value == pytest.approx(-found.value)


def test_one_seed_of_many_games_is_the_normal_interval() -> None:
    """1000 games, 150 only a won, 50 only b: 0.1 +- 1.96 sqrt(0.2 - 0.01) / sqrt(1000)."""
    a = [True] * 150 + [False] * 50 + [True] * 800
    b = [False] * 150 + [True] * 50 + [True] * 800
    found = paired_difference([a], [b], seed=0)
    half = 1.96 * math.sqrt(0.19 / 1000)
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half), abs=0.002)
    assert found.p == mcnemar(150, 50)


def test_many_equal_seeds_are_as_sure_as_their_games() -> None:
    """Seeds that differ less than their games' luck add no doubt of their own."""
    a = [[True] * 15 + [False] * 5 + [True] * 80] * 10
    b = [[False] * 15 + [True] * 5 + [True] * 80] * 10
    found = paired_difference(a, b, seed=0)
    half = 1.96 * math.sqrt(0.19 / 1000)
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half), abs=0.004)


def test_two_seeds_that_contradict_each_other_show_nothing() -> None:
    """Pooled, 400 games would call +0.2 certain; two seeds at +0.6 and -0.2 do not."""
    a = [[True] * 160 + [False] * 40, [True] * 60 + [False] * 140]
    b = [[True] * 40 + [False] * 160, [True] * 100 + [False] * 100]
    found = paired_difference(a, b, seed=0)
    assert found.value == pytest.approx(0.2)
    assert found.low < -0.3
    assert found.p > 0.3
    assert mcnemar(120, 40) < 1e-9


def test_no_finite_number_of_draws_is_certainty() -> None:
    """Every draw lies on one side; the next might not."""
    won, lost = [[True] * 40] * 5, [[False] * 40] * 5
    for resamples in (200, 1000):
        found = paired_difference(won, lost, seed=0, resamples=resamples)
        assert found.p == pytest.approx(2 / (resamples + 1), rel=1e-12)


def test_no_difference_seen_is_not_certainty() -> None:
    low, high = paired_difference([[True] * 20], [[True] * 20], seed=0).interval
    assert low < -0.05 < 0.05 < high


def test_micro_counts_games_and_macro_groups() -> None:
    a = {"maze": [[True] * 30 + [False] * 10], "wordle": [[False] * 10]}
    b = {"maze": [[True] * 20 + [False] * 20], "wordle": [[True] * 2 + [False] * 8]}
    found = paired_differences(a, b, seed=0)
    assert {name: d.value for name, d in found.groups.items()} == {"maze": 0.25, "wordle": -0.2}
    assert found.micro.value == pytest.approx(8 / 50)
    assert found.macro.value == pytest.approx(0.025)
    assert found.groups["maze"].p == mcnemar(10, 0)
    assert found.micro.p == mcnemar(10, 2)
    alone = paired_difference(a["maze"], b["maze"], seed=0)
    assert found.groups["maze"] == alone


@pytest.mark.parametrize(
    ("a", "b"),
    [([[True]], [[True, False]]), ([[True]], [[True], [True]]), ([], []), ([[]], [[]])],
)
def test_only_equal_shapes_are_paired(a: list[list[bool]], b: list[list[bool]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_difference(a, b, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "games", "apart", "share"),
    # `apart`: how much the true difference varies from seed to seed, standard deviation.
    # `share`: what 4000 (one seed) or 2000 experiments gave.
    [(1, 200, 0.0, 0.947), (5, 60, 0.0, 0.965), (5, 200, 0.03, 0.936), (2, 60, 0.1, 0.896)],
)
def test_the_interval_covers_the_truth(seeds: int, games: int, apart: float, share: float) -> None:
    """1000 experiments with a true difference of 0.1; the share's standard error is below 0.01."""
    truth, draw, hits = 0.1, np.random.default_rng(5), 0
    for trial in range(1000):
        luck = draw.random((seeds, games))
        # Every other game is decided alike for both methods.
        other = np.where(draw.random((seeds, games)) < 0.5, luck, draw.random((seeds, games)))
        better = 0.4 + truth + apart * draw.standard_normal((seeds, 1))
        found = paired_difference(
            (luck < better).tolist(), (other < 0.4).tolist(), seed=trial, resamples=500
        )
        hits += found.low <= truth <= found.high
    assert hits / 1000 == pytest.approx(share, abs=0.02)
