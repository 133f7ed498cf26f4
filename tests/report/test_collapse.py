"""The collapse rule: both numbers must have fallen, and still be down in the last round."""

from fedse.committed import RoundResult
from fedse.report.collapse import Variety, collapsed_since, collapses
from fedse.types import ClientStats


def series(*pairs: tuple[float, float]) -> list[Variety]:
    return [Variety(index, *pair) for index, pair in enumerate(pairs, 1)]


def test_both_must_fall():
    assert collapsed_since(series((2.0, 1.0), (0.9, 0.9))) == 2
    assert collapsed_since(series((2.0, 1.0), (0.9, 1.0))) is None
    assert collapsed_since(series((2.0, 1.0), (1.1, 0.1))) is None


def test_half_is_not_below_half():
    assert collapsed_since(series((2.0, 1.0), (1.0, 0.5))) is None


def test_since_is_the_start_of_the_unbroken_end():
    told = series((2.0, 1.0), (0.5, 0.5), (2.0, 0.9), (0.9, 0.5), (0.8, 0.5))
    assert collapsed_since(told) == 4
    assert collapsed_since(told[:3]) is None  # it has recovered


def test_one_round_or_none_cannot_collapse():
    assert collapsed_since([]) is None
    assert collapsed_since(series((0.0, 0.0))) is None
    assert collapsed_since(series((0.0, 0.5), (0.0, 0.1))) is None  # nothing is below half of zero


def result(index: int, **stats: ClientStats) -> RoundResult:
    return RoundResult(
        index=index,
        before="",
        after="",
        voters=(),
        stats=stats,
        bytes_down=0,
        bytes_up=0,
        seconds=0,
    )


def test_rounds_without_an_episode_do_not_count():
    lively = ClientStats(played=4, entropy=2.0, distinct=1.0)
    dull = ClientStats(played=4, entropy=0.5, distinct=0.5)
    idle = ClientStats()
    found = collapses([result(1, b=lively, a=lively), result(2, b=idle), result(3, b=dull)])
    assert [(c.client, c.since) for c in found] == [("b", 3)]
    assert (found[0].first, found[0].last) == (Variety(1, 2.0, 1.0), Variety(3, 0.5, 0.5))
