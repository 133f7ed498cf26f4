"""Strikes and pardons: a function of the committed rounds and the pardons, and of nothing else."""

from hypothesis import example, given
from hypothesis import strategies as st

from fedse.aggregate.quarantine import (
    STRIKES,
    StrikeHistory,
    quarantined,
    strike_history,
    window_of,
)
from fedse.committed import Exclusion, ExclusionKind, RoundResult

KINDS: tuple[ExclusionKind, ...] = ("rejected", "suspected", "quarantined", "revoked", "failed")


def result(index: int, **kinds: ExclusionKind) -> RoundResult:
    excluded = tuple(Exclusion(client=c, kind=kind, reason="r") for c, kind in kinds.items())
    return RoundResult(
        index=index, before=f"{index - 1}", after=f"{index}", voters=(), excluded=excluded,
        stats={}, bytes_down=0, bytes_up=0, seconds=0.0,
    )  # fmt: skip


def struck(*rounds: int, until: int) -> list[RoundResult]:
    return [result(i, a="rejected") if i in rounds else result(i) for i in range(1, until + 1)]


def out(results: list[RoundResult], pardons: dict[str, int], limit: int = 3) -> set[str]:
    return {*quarantined(strike_history(results, pardons), ["a", "b"], limit=limit)}


def test_a_pardon_forgives_what_was_before_it_and_nothing_after_it():
    past = struck(1, 2, 3, until=4)
    assert out(past, {}) == {"a"}
    assert out(past, {"a": 4}) == set()
    assert out(past, {"a": 2}) == set(), "one strike is left"
    assert out(past, {"b": 4}) == {"a"}, "a pardon is for one member"
    again = struck(1, 2, 3, 5, 6, 7, until=7)
    assert out(again, {"a": 4}) == {"a"}, "three new strikes are a new quarantine"
    assert out(again[:6], {"a": 4}) == set()


def test_only_a_reply_that_broke_the_rules_is_a_strike():
    for kind in KINDS:
        results = [result(i, a=kind) for i in (1, 2, 3)]
        assert (out(results, {}) == {"a"}) is (kind in STRIKES)


@given(
    rounds=st.sets(st.integers(1, 12)),
    pardon=st.integers(0, 12),
    limit=st.integers(0, 4),
    cut=st.integers(0, 12),
)
@example(rounds={3}, pardon=3, limit=1, cut=0)
def test_history_does_not_depend_on_where_a_restart_cut_it(rounds, pardon, limit, cut):
    results, pardons = struck(*rounds, until=12), {"a": pardon}
    resumed = strike_history(results[:cut], pardons)
    for one in results[cut:]:
        resumed = resumed.after(one)
    assert resumed == strike_history(results, pardons)
    expected = bool(limit) and sum(r > pardon for r in rounds) >= limit
    assert ("a" in quarantined(resumed, ["a"], limit=limit)) is expected


def test_without_an_end_a_strike_counts_for_a_window_of_rounds():
    assert [window_of(20, 500), window_of("open", 50), window_of("open", 103)] == [0, 0, 3]
    past = StrikeHistory({"a": (1, 2, 3)}, frozenset(), {})
    left = [past._replace(since=window_of("open", done)).strikes("a") for done in (100, 101, 103)]
    assert left == [3, 2, 0]
