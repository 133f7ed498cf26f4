"""The choice of an adapter: better beyond doubt, or the one a site would have alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.stats.choice import choose_safely

games = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=40)


def chosen(**outcomes: list[bool]) -> str:
    return choose_safely(outcomes, reference="alone", risk=0.05).name


def test_a_lead_of_six_games_is_beyond_doubt_against_one_rival_and_five_is_chance():
    """2^-5 < 0.05 < 2^-4; with two rivals each has half the risk."""
    assert chosen(alone=[False] * 20, personal=[True] * 5 + [False] * 15) == "personal"
    assert chosen(alone=[False] * 20, personal=[True] * 4 + [False] * 16) == "alone"
    rest = [False] * 15
    both = {"personal": [True] * 5 + rest, "global": [False] * 20}
    assert chosen(alone=[False] * 20, **both) == "alone"
    both["personal"] = [True] * 6 + rest[1:]
    assert chosen(alone=[False] * 20, **both) == "personal"


@given(games)
def test_the_chosen_one_never_won_fewer_games(played: list[tuple[bool, bool, bool]]):
    alone, own, shared = (list(column) for column in zip(*played, strict=True))
    choice = choose_safely(
        {"alone": alone, "own": own, "shared": shared}, reference="alone", risk=0.05
    )
    assert choice.won[choice.name] >= choice.won["alone"]
    assert choice.won == {"alone": sum(alone), "own": sum(own), "shared": sum(shared)}


@pytest.mark.parametrize("success", [0.2, 0.5, 0.9])
def test_the_risk_of_a_worse_choice_is_bounded(success: float):
    """Both rivals are truly a little worse."""
    draw, risk, times, wrong = np.random.default_rng(3), 0.05, 2000, 0
    for _ in range(times):
        alone, own, shared = (
            draw.random(60) < p for p in (success, success - 0.01, success - 0.02)
        )
        outcomes = {"alone": list(alone), "own": list(own), "shared": list(shared)}
        wrong += choose_safely(outcomes, reference="alone", risk=risk).name != "alone"
    assert wrong / times <= risk
