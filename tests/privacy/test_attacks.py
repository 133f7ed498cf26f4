"""No attack does better than the bounds, and the best one reaches them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("dp_accounting")

from fedse.privacy.accountant import Charge, epsilon_of, noise_for
from fedse.privacy.attacks import FALSE_ALARMS, attack_bounds


def charge(rate: float, noise: float, steps: int) -> Charge:
    return Charge("run", 1, "episode", rate, noise, steps)


def normal(value: float) -> float:
    return (1 + math.erf(value / math.sqrt(2))) / 2


@pytest.mark.parametrize(("noise", "steps"), [(0.601, 1), (4.0, 10), (2.0, 1)])
def test_without_sampling_they_are_those_of_two_gaussians(noise: float, steps: int):
    """The best attack looks at one number, whose mean moves by sqrt(steps) / noise."""
    apart = math.sqrt(steps) / noise
    found = attack_bounds([charge(1.0, noise, steps)])
    assert found.auc == pytest.approx(normal(apart / math.sqrt(2)), abs=0.005)
    least = normal(apart - 2.3263)  # of which 1 % of the others are above
    assert least <= found.found == pytest.approx(least, abs=0.01)


def test_the_same_epsilon_allows_less_where_units_are_drawn():
    drawn = charge(0.1, noise_for(8.0, 1e-5, rate=0.1, steps=20), 20)
    whole = charge(1.0, noise_for(8.0, 1e-5, rate=1.0, steps=1), 1)
    epsilons = [epsilon_of([one], delta=1e-5) for one in (drawn, whole)]
    assert epsilons == pytest.approx([8.0, 8.0], abs=0.02)
    assert attack_bounds([drawn]).auc < 0.8 < attack_bounds([whole]).auc


def test_nothing_leaves_a_guess_and_a_step_without_noise_everything():
    assert attack_bounds([]) == (0.5, FALSE_ALARMS)
    assert attack_bounds([charge(0.1, 0.0, 1)]) == (1.0, 1.0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.builds(charge, st.just(0.1), st.sampled_from([1.5, 4.0]), st.integers(1, 20))))
def test_more_steps_never_leave_less(charges: list[Charge]):
    some, all_of_them = attack_bounds(charges[:-1]), attack_bounds(charges)
    assert some.auc <= all_of_them.auc + 1e-9
    assert some.found <= all_of_them.found + 1e-9
