"""Laws of the evidence: a fair game at the margin, blind to the future, and never below nothing."""

from collections.abc import Sequence
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse_serve.evidence import BETS, Block, Evidence, fortunes_after

Outcomes = Sequence[tuple[bool, bool]]
"""Whether it is of the first arm, and what came out."""

SEEN = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)
MARGINS = st.sampled_from([-0.5, -0.02, 0.0, 0.02, 0.3, 1.0])


def evidence_of(outcomes: Outcomes, margin: float) -> float:
    evidence = Evidence(margin)
    for first, outcome in outcomes:
        evidence.add(outcome, first=first)
    return evidence.value


def expected(arms: Sequence[bool], rates: tuple[float, float], margin: float) -> float:
    """The mean over all that can come out, each weighted with its probability."""
    total = 0.0
    for outcomes in product([True, False], repeat=len(arms)):
        chances = (
            rates[0 if first else 1] if outcome else 1 - rates[0 if first else 1]
            for first, outcome in zip(arms, outcomes, strict=True)
        )
        total += prod(chances) * evidence_of(list(zip(arms, outcomes, strict=True)), margin)
    return total


ARMS = [*product([True, False], repeat=6), (False,) * 4 + (True,) + (False,) * 4 + (True,)]


@pytest.mark.parametrize("second", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("margin", [-0.1, 0.0, 0.1])
def test_the_game_is_fair_at_the_margin_whatever_the_order_of_the_arms(
    second: float, margin: float
) -> None:
    first = second + margin
    if first < 0:
        first, second = 0.0, -margin
    for arms in ARMS:
        assert expected(arms, (first, second), margin) == pytest.approx(1.0, abs=1e-12)


def test_the_game_is_unfavourable_below_the_margin_and_favourable_above() -> None:
    arms = (True, False) * 3
    values = [expected(arms, (rate, 0.5), 0.1) for rate in (0.0, 0.3, 0.5, 0.6, 0.7, 1.0)]
    assert values == sorted(values)
    assert values[2] < 1 < values[4]


def test_small_numbers() -> None:
    won = (1 + BETS[0] / 2, 1 + BETS[1] / 2, 1 + BETS[2] / 2, 1 + BETS[3] / 2, 1 + BETS[4] / 2)
    assert fortunes_after([1.0] * 5, Block(1, 1, 0, 1), margin=0.0) == pytest.approx(won)
    # One against three, of which one: 1 - 1/3 ahead, weight 3/4.
    assert fortunes_after([1.0], Block(1, 1, 1, 3), margin=0.0, bets=[0.8]) == pytest.approx([1.4])
    assert evidence_of([(True, True), (False, False)], 0.0) == pytest.approx(1 + sum(BETS) / 10)


@given(st.integers(1, 50), st.integers(1, 50), MARGINS)
def test_no_gambler_loses_more_than_the_bet(firsts: int, seconds: int, margin: float) -> None:
    worst = fortunes_after([1.0] * len(BETS), Block(0, firsts, seconds, seconds), margin=margin)
    for fortune, bet in zip(worst, BETS, strict=True):
        assert fortune >= 1 - bet - 1e-12


@given(SEEN, MARGINS)
def test_it_is_never_negative_nor_nothing(outcomes: Outcomes, margin: float) -> None:
    assert evidence_of(outcomes, margin) > 0


@given(SEEN, SEEN, MARGINS)
def test_what_comes_later_changes_nothing_before(
    outcomes: Outcomes, later: Outcomes, margin: float
) -> None:
    evidence, values = Evidence(margin), []
    for first, outcome in [*outcomes, *later]:
        values.append(evidence.value)
        evidence.add(outcome, first=first)
    values.append(evidence.value)
    assert values[len(outcomes)] == evidence_of(outcomes, margin)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data(), MARGINS)
def test_the_order_within_a_block_is_irrelevant(
    ones: list[bool], data: st.DataObject, margin: float
) -> None:
    def value(second: Sequence[bool]) -> float:
        block = [*((False, one) for one in second), (True, True)]
        return evidence_of([(True, False), (False, True), *block], margin)

    assert value(ones) == value(data.draw(st.permutations(ones)))


@given(SEEN, SEEN, MARGINS)
def test_strata_do_not_meet_in_a_block(one: Outcomes, other: Outcomes, margin: float) -> None:
    mixed, apart = Evidence(margin), Evidence(margin)
    for index in range(max(len(one), len(other))):
        for name, outcomes in (("a", one), ("b", other)):
            if index < len(outcomes):
                mixed.add(outcomes[index][1], first=outcomes[index][0], stratum=name)
    for name, outcomes in (("a", one), ("b", other)):
        for first, outcome in outcomes:
            apart.add(outcome, first=first, stratum=name)
    assert mixed.value == pytest.approx(apart.value)


@given(SEEN)
def test_all_outcomes_are_counted(outcomes: Outcomes) -> None:
    evidence = Evidence(0.0)
    for number, (first, outcome) in enumerate(outcomes):
        evidence.add(outcome, first=first, stratum=number % 3)
    ones, others = ([o for first, o in outcomes if first is arm] for arm in (True, False))
    assert evidence.counts == (sum(ones), len(ones), sum(others), len(others))


@given(st.lists(st.booleans(), max_size=60))
def test_one_arm_alone_is_no_evidence(outcomes: list[bool]) -> None:
    assert evidence_of([(True, one) for one in outcomes], 0.0) == 1.0


@given(SEEN)
def test_a_margin_of_one_is_never_exceeded(outcomes: Outcomes) -> None:
    assert evidence_of(outcomes, 1.0) <= 1.0


@pytest.mark.parametrize(("margin", "bets"), [(-1.0, BETS), (1.1, BETS), (0.0, [1.0])])
def test_a_bet_that_could_lose_everything_is_refused(margin: float, bets: list[float]) -> None:
    with pytest.raises(ValueError, match="expected -1 < margin"):
        Evidence(margin, bets=bets)
