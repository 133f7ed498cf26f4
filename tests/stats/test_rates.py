"""Intervals against published numbers, averages against numbers done in the head."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.schema import ClientSection, Config
from fedse.stats.rates import Rate, by_env, change, macro, micro, newcombe, rates, wilson
from fedse.types import ClientStats


# Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
     (1, 29, 0.0061, 0.1718)],
)  # fmt: skip
def test_wilson_published(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


# Newcombe 1998, "Interval estimation for the difference between independent proportions",
# table II, method 10.
@pytest.mark.parametrize(
    ("s1", "n1", "s2", "n2", "low", "high"),
    [(56, 70, 48, 80, 0.0524, 0.3339), (9, 10, 3, 10, 0.1705, 0.8090),
     (6, 7, 2, 7, 0.0582, 0.8062), (5, 56, 0, 29, -0.0381, 0.1926),
     (0, 10, 0, 20, -0.1611, 0.2775), (10, 10, 0, 10, 0.6075, 1.0)],
)  # fmt: skip
def test_newcombe_published(s1: int, n1: int, s2: int, n2: int, low: float, high: float) -> None:
    assert newcombe(s1, n1, s2, n2) == pytest.approx((low, high), abs=5e-5)


counts = st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_wilson_holds_the_rate_and_mirrors(count: tuple[int, int]) -> None:
    successes, n = count
    low, high = wilson(successes, n)
    assert 0 <= low <= high <= 1
    if n:
        assert low <= successes / n <= high
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low))


@given(counts, counts)
def test_newcombe_turns_round_with_its_arguments(a: tuple[int, int], b: tuple[int, int]) -> None:
    low, high = newcombe(*a, *b)
    assert -1 <= low <= high <= 1
    assert newcombe(*b, *a) == pytest.approx((-high, -low))


def test_no_episode_says_nothing() -> None:
    assert wilson(0, 0) == (0, 1)
    assert change(Rate(0, 0), Rate(3, 4)) == (-1, 1)
    assert math.isnan(Rate(0, 0).value)


def test_counts_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="5 of 4"):
        wilson(5, 4)


def test_averages() -> None:
    config = Config(
        clients=(
            ClientSection(name="a", env="maze"),
            ClientSection(name="b", env="maze"),
            ClientSection(name="c", env="wordle"),
            ClientSection(name="d", env="wordle"),
        )
    )
    evals = {
        "a": ClientStats(eval_played=10, eval_succeeded=5),
        "b": ClientStats(eval_played=30, eval_succeeded=25),
        "c": ClientStats(eval_played=10, eval_succeeded=1),
        "d": ClientStats(),
    }
    found = rates(evals)
    assert set(found) == {"a", "b", "c"}
    envs = by_env(found, config)
    assert envs == {"maze": Rate(30, 40), "wordle": Rate(1, 10)}
    assert micro(list(envs.values())) == Rate(31, 50)
    assert macro(list(envs.values())).value == pytest.approx((0.75 + 0.1) / 2)


@given(counts.filter(lambda count: count[1] > 0))
def test_macro_of_one_is_that_one(count: tuple[int, int]) -> None:
    rate = Rate(*count)
    assert macro([rate]).value == rate.value
    assert macro([rate]).interval == pytest.approx(rate.interval)


def test_macro_of_two_is_as_wide_as_newcombe() -> None:
    """The half sum of p1 and p2 spreads like half the difference of p1 and 1 - p2."""
    low, high = macro([Rate(56, 70), Rate(32, 80)]).interval
    other_low, other_high = newcombe(56, 70, 48, 80)
    assert (low, high) == pytest.approx(((1 + other_low) / 2, (1 + other_high) / 2))
