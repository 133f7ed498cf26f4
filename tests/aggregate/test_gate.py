"""The gate: counts in, a verdict out; chance rarely refuses, and few liars decide nothing."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedse.aggregate.gate import Harm, Won, harm_of, judge, trimmed_mean

GAMES = 40


def counts(*won: int, played: int = GAMES) -> dict[str, Won]:
    return {f"site-{i}": Won(one, played) for i, one in enumerate(won)}


def verdict(before: dict[str, Won], after: dict[str, Won], *, liars: int = 0, level: float = 0.05):
    return judge(before, after, liars=liars, level=level, seed=1)


def test_the_trimmed_mean_of_small_numbers():
    assert trimmed_mean([3.0, -9.0, 1.0, 2.0, 50.0], 1) == 2.0
    assert trimmed_mean([1.0, 2.0, 6.0], 0) == 3.0


def test_the_same_counts_are_accepted_and_a_collapse_is_refused():
    before = counts(20, 20, 20, 20, 20)
    assert verdict(before, before) == verdict(before, before)
    assert verdict(before, before).change == 0
    assert verdict(before, before).accepted
    assert not verdict(before, counts(8, 8, 8, 8, 8)).accepted
    assert verdict(before, counts(40, 40, 40, 40, 40)).accepted


def test_what_is_larger_than_chance_is_smaller_with_more_games():
    few = verdict(counts(5, 5, 5, played=10), counts(4, 4, 4, played=10))
    many = verdict(counts(500, 500, 500, played=1000), counts(400, 400, 400, played=1000))
    assert few.change == pytest.approx(many.change)
    assert few.accepted
    assert not many.accepted


@pytest.mark.parametrize("lie", [0, GAMES])
def test_two_liars_of_five_decide_nothing(lie: int):
    before, collapsed = counts(20, 20, 20, 20, 20), counts(6, 6, 6, lie, lie)
    assert verdict(before, counts(21, 20, 19, lie, lie), liars=2).accepted
    assert not verdict(before, collapsed, liars=2).accepted


@given(st.lists(st.integers(0, GAMES), min_size=5, max_size=9), st.data())
def test_liars_keep_the_change_between_those_of_honest_sites(honest: list[int], data):
    liars = data.draw(st.integers(0, (len(honest) - 1) // 2))
    lies = data.draw(st.lists(st.integers(0, GAMES), min_size=liars, max_size=liars))
    before = counts(*[20] * (len(honest) + liars))
    change = verdict(before, counts(*honest, *lies), liars=liars).change
    changes = [(won - 20) / GAMES for won in honest]
    assert min(changes) - 1e-9 <= change <= max(changes) + 1e-9


def test_too_few_sites_decide_nothing_and_nothing_is_accepted():
    before = counts(20, 20, 20, 20)
    assert not verdict(before, before, liars=2).accepted
    assert not verdict({}, before).accepted
    assert not verdict(before, {"stranger": Won(40, 40)}).accepted


@pytest.mark.parametrize("liars", [0, 1, 2])
@pytest.mark.parametrize("success", [0.1, 0.5])
def test_chance_alone_refuses_as_rarely_as_the_level_says(liars: int, success: float):
    draw, level, rounds = np.random.default_rng(7), 0.05, 400
    refused = 0
    for number in range(rounds):
        won = draw.binomial(GAMES, success, (2, 5))
        before, after = counts(*map(int, won[0])), counts(*map(int, won[1]))
        seen = judge(before, after, liars=liars, level=level, seed=number)
        refused += not seen.accepted
    # Three standard deviations above the level.
    assert refused / rounds <= level + 3 * (level * (1 - level) / rounds) ** 0.5


def harm(accused: set[str], without: dict[str, Won], whole: dict[str, Won], **other) -> Harm:
    return harm_of(accused, without, whole, **{"liars": 2, "level": 0.05, "seed": 1, **other})


TWO = {"site-3", "site-4"}


@pytest.mark.parametrize("lie", [0, GAMES])
def test_the_accused_do_not_judge_themselves(lie: int):
    without, whole = counts(20, 20, 20, lie, lie), counts(8, 9, 10, GAMES - lie, GAMES - lie)
    found, turned = harm(TWO, without, whole), harm(TWO, whole, without)
    assert found.change == pytest.approx(-11 / GAMES)
    assert (found.proven, found.helps) == (True, False)
    assert (turned.proven, turned.helps) == (False, True)
    assert not harm(TWO, without, without).proven


def test_what_chance_explains_is_not_harm():
    without, whole = counts(20, 20, 20, 20, 20), counts(19, 18, 19, 20, 20)
    assert not harm(TWO, without, whole).proven
    assert harm({"site-0"}, *(counts(*[n] * 5, played=4000) for n in (2000, 1900)), liars=1).proven


@given(st.lists(st.tuples(st.integers(0, GAMES), st.integers(0, GAMES)), min_size=5, max_size=5))
def test_two_liars_prove_nothing_that_no_honest_site_saw(games: list[tuple[int, int]]):
    """The honest ones, three of them with one accused, do no better without it."""
    honest = [(min(pair), max(pair)) for pair in games[:3]]
    said = [*honest, *games[3:]]
    without, whole = (counts(*(pair[i] for pair in said)) for i in (0, 1))
    assert not harm({"site-0"}, without, whole).proven


ANY = st.tuples(st.integers(0, GAMES), st.integers(0, GAMES))


@example(honest=[(20, 20)] * 3, lie=(GAMES, 0))
@given(honest=st.lists(ANY, min_size=3, max_size=3), lie=ANY)
def test_one_liar_makes_the_harm_no_larger_than_an_honest_judge_saw(honest, lie):
    said = [(20, 20), *honest, lie]
    without, whole = (counts(*(pair[i] for pair in said)) for i in (0, 1))
    changes = [(after - before) / GAMES for before, after in honest]
    found = harm({"site-0"}, without, whole, liars=1)
    assert min(changes) - 1e-9 <= found.change <= max(changes) + 1e-9


@pytest.mark.parametrize("accused", [{"site-0"}, {"site-0", "site-1"}])
def test_chance_alone_accuses_as_rarely_as_the_level_says(accused: set[str]):
    draw, level, rounds = np.random.default_rng(8), 0.05, 400
    proven = 0
    for number in range(rounds):
        won = draw.binomial(GAMES, 0.4, (2, 5))
        without, whole = counts(*map(int, won[0])), counts(*map(int, won[1]))
        proven += harm(accused, without, whole, seed=number, level=level).proven
    assert proven / rounds <= level + 3 * (level * (1 - level) / rounds) ** 0.5


def test_too_few_judges_prove_nothing():
    without, whole = counts(40, 40, 40, 40, 40), counts(0, 0, 0, 0, 0)
    few = {site: whole[site] for site in ("site-3", "site-4")}
    for found in (harm(TWO, without, few), harm(TWO, without, {}), harm(TWO, few, without)):
        assert (found.proven, found.helps) == (False, False)
