"""Who agrees least with the others: by direction only, and a few friends do not change it."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.agreement import Stance, far_away, least_agreeing, opposed, stances_of
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)


def votes_of(updates: Mapping[str, np.ndarray]) -> dict[str, Callable[[], Adapter]]:
    moved = {
        client: Adapter(SPEC, (CURRENT.vector + update).astype(np.float32))
        for client, update in updates.items()
    }
    return {client: lambda vote=vote: vote for client, vote in moved.items()}


def agreement_of(updates: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {c: one.agreement for c, one in stances_of(CURRENT, votes_of(updates), updates).items()}


def agreeing(**agreement: float) -> dict[str, Stance]:
    return {client: Stance(value, 1.0) for client, value in agreement.items()}


def axis(place: int, length: float = 1.0) -> np.ndarray:
    update = np.zeros(SPEC.size)
    update[place] = length
    return update


def test_the_median_cosine_of_small_numbers():
    updates = {"a": axis(0), "b": axis(0) + axis(1), "c": axis(1), "d": -axis(0)}
    found = agreement_of(updates)
    half = 0.5**0.5
    # Of a: half, 0, -1. Of b: half, half, -half. Of c: 0, half, 0. Of d: -1, -half, 0.
    assert found == pytest.approx({"a": 0, "b": half, "c": 0, "d": -half}, abs=1e-5)


@given(st.lists(st.floats(0.5, 100), min_size=4, max_size=4), st.permutations("abcd"))
def test_neither_lengths_nor_order_change_it(lengths: list[float], order: list[str]):
    draw = np.random.default_rng(5)
    updates = {client: draw.standard_normal(SPEC.size) for client in "abcd"}
    longer = {c: updates[c] * lengths["abcd".index(c)] for c in order}
    once, again = (agreement_of(one) for one in (updates, longer))
    assert again == pytest.approx(once, abs=1e-4)


@pytest.mark.parametrize("friends", [1, 2])
def test_few_that_agree_only_among_themselves_agree_least(friends: int):
    draw = np.random.default_rng(6)
    honest = {c: axis(0) + 0.1 * draw.standard_normal(SPEC.size) for c in "cde"}
    others = {c: axis(1, 50.0) for c in "ab"[:friends]}
    found = stances_of(CURRENT, votes_of({**others, **honest}), {**others, **honest})
    assert least_agreeing(found, 2, suspected={})[friends - 1] == {*others}


def test_nothing_changed_and_nobody_else_count_as_nothing():
    assert agreement_of({"a": axis(0)}) == {"a": 0.0}
    assert agreement_of({"a": axis(0), "b": 0 * axis(0)}) == {"a": 0, "b": 0}
    assert agreement_of({}) == {}


def test_never_everybody_is_asked_about():
    assert least_agreeing(agreeing(a=0.1, b=0.0), 5, suspected={}) == [{"b"}]
    assert least_agreeing(agreeing(a=0.1), 5, suspected={}) == []
    assert least_agreeing(agreeing(a=0.1, b=0.0), 0, suspected={}) == []
    # Equal ones in the order of their names.
    assert least_agreeing(agreeing(b=0.0, a=0.0, c=0.0), 2, suspected={}) == [{"a"}, {"a", "b"}]
    # Who was suspected before comes first.
    asked = least_agreeing(agreeing(a=0.0, b=0.1, c=0.2), 2, suspected={"c": 1, "z": 3})
    assert asked == [{"c"}, {"a", "c"}]


@pytest.mark.parametrize("turned", [1, 2])
def test_who_goes_back_is_opposed_and_who_goes_elsewhere_is_not(turned: int):
    draw = np.random.default_rng(7)
    common, aside = draw.standard_normal((2, SPEC.size))
    honest = {c: common + 0.5 * draw.standard_normal(SPEC.size) for c in "abcde"}
    back = {c: -honest[c] for c in "ab"[:turned]}
    assert opposed(stances_of(CURRENT, votes_of({**honest, **back}), {**honest, **back})) == {*back}
    elsewhere = {"a": aside - (aside @ common) / (common @ common) * common}
    assert not opposed(
        stances_of(CURRENT, votes_of({**honest, **elsewhere}), {**honest, **elsewhere})
    )


def test_far_away_is_a_multiple_of_the_median():
    lengths = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 21.0, "e": 20.0}
    stances = {client: Stance(0.0, length) for client, length in lengths.items()}
    assert far_away(stances, 6.9) == {"d"}
    assert far_away(stances, 7.0) == frozenset()
    assert far_away({}, 2.0) == frozenset()


def test_agreement_is_with_those_on_the_panel():
    """Three go one way and two the other; on the panel is one of each."""
    updates = {client: axis(0, 1.0 if client in "abc" else -1.0) for client in "abcde"}
    found = stances_of(CURRENT, votes_of(updates), {"a", "d"})
    assert [round(found[client].agreement) for client in "abcde"] == [-1, 1, 1, -1, 1]
