"""The share of a gap: numbers done by hand, and what the interval says where there is no gap."""

from math import inf, isnan

import pytest

from fedse.stats.gap import gap_closed


def games(won: int, of: int = 200) -> list[bool]:
    return [number < won for number in range(of)]


def test_three_quarters_of_the_way() -> None:
    """40, 100 and 120 of 200 games: (100 - 40) / (120 - 40)."""
    found = gap_closed([games(40)] * 5, [games(100)] * 5, [games(120)] * 5, seed=0)
    assert found.value == pytest.approx(0.75)
    assert 0.6 < found.low < 0.75 < found.high < 0.9


@pytest.mark.parametrize(("middle", "share"), [(40, 0.0), (120, 1.0)])
def test_the_ends_of_the_gap(middle: int, share: float) -> None:
    found = gap_closed([games(40)] * 3, [games(middle)] * 3, [games(120)] * 3, seed=0)
    assert found == pytest.approx((share, share, share))


def test_seeds_that_differ_widen_the_interval() -> None:
    alike = gap_closed([games(40)] * 4, [games(80)] * 4, [games(120)] * 4, seed=0)
    apart = gap_closed([games(40)] * 4, [games(60), games(100)] * 2, [games(120)] * 4, seed=0)
    assert alike.value == apart.value == pytest.approx(0.5)
    assert apart.high - apart.low > 1.5 * (alike.high - alike.low)


def test_without_a_gap_any_share_is_possible() -> None:
    none = gap_closed([games(60)] * 5, [games(80)] * 5, [games(60)] * 5, seed=0)
    assert isnan(none.value)
    assert (none.low, none.high) == (-inf, inf)
    hardly = gap_closed([games(60, 100)], [games(50, 100)], [games(61, 100)], seed=0)
    assert (hardly.low, hardly.high) == (-inf, inf)


def test_other_games_are_refused() -> None:
    with pytest.raises(ValueError, match="the same seeds and games"):
        gap_closed([games(1)], [games(1)], [games(1, 100)], seed=0)
