"""What noisy steps tell: dp-accounting's own figures, and how they add up."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("dp_accounting")

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from fedse.errors import ConfigError
from fedse.privacy import accountant
from fedse.privacy.accountant import Charge, epsilon_of, is_within, noise_for

DELTA = 1e-5


def charge(rate: float = 0.1, noise: float = 1.5, steps: int = 20, round: int = 1) -> Charge:
    return Charge("run", round, "episode", rate, noise, steps)


def told(*charges: Charge) -> float:
    return epsilon_of(charges, delta=DELTA)


def event(rate: float, noise: float, steps: int) -> dp_accounting.DpEvent:
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.1, 0.742, 20), (0.5, 3.0, 40), (1, 5, 50)])
def test_it_is_the_figure_of_dp_accounting(rate: float, noise: float, steps: int):
    """With losses rounded ten times finer it is hardly less, by Renyi divergences it is more."""
    own, what = told(charge(rate, noise, steps)), event(rate, noise, steps)
    fine = PLDAccountant(value_discretization_interval=1e-4).compose(what).get_epsilon(DELTA)
    assert fine <= own <= 1.001 * fine
    assert own < RdpAccountant().compose(what).get_epsilon(DELTA)


def test_without_sampling_it_is_the_closed_form():
    """All steps together are one Gaussian (arXiv 1905.02383)."""
    noise, steps = 4.0, 10
    mean = math.sqrt(steps) / noise

    def delta(epsilon: float) -> float:
        low, high = (
            (1 + math.erf((-epsilon / mean + half * mean / 2) / math.sqrt(2))) / 2
            for half in (1, -1)
        )
        return low - math.exp(epsilon) * high

    epsilon = told(charge(1.0, noise, steps))
    assert delta(epsilon) <= DELTA <= delta(epsilon * (1 - 1e-3))


def test_nothing_tells_nothing_and_a_step_without_noise_everything():
    assert told() == 0.0
    assert told(charge(steps=0)) == 0.0
    assert told(charge(), charge(noise=0.0, steps=1)) == math.inf
    assert not is_within(1e9, math.inf)


def test_that_noise_was_missing_is_known_without_the_library(monkeypatch: pytest.MonkeyPatch):
    """A site may have answered before it had the library."""

    def missing() -> None:
        raise ConfigError("there is no dp_accounting")

    monkeypatch.setattr(accountant, "_require_library", missing)
    assert told(charge(noise=0.0, steps=3)) == math.inf


rates = st.sampled_from([0.1, 1.0])
noises = st.sampled_from([1.5, 4.0])
charges = st.lists(st.builds(charge, rates, noises, st.integers(1, 30)), max_size=5)


@settings(max_examples=10, deadline=None)
@given(before=charges, more=charges)
def test_it_never_falls_and_the_order_does_not_matter(before: list[Charge], more: list[Charge]):
    assert told(*before) <= told(*before, *more) * (1 + 1e-12)
    assert told(*before, *more) == told(*more, *before)


def test_rounds_cost_as_much_as_their_steps_together():
    apart = [charge(steps=20, round=number) for number in range(1, 6)]
    assert told(*apart) == told(charge(steps=100))


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_noise_is_the_least_that_lasts(epsilon: float):
    noise = noise_for(epsilon, DELTA, rate=0.2, steps=100)
    assert is_within(epsilon, told(charge(0.2, noise, 100)))
    assert not is_within(epsilon, told(charge(0.2, noise - 0.002, 100)))
    assert round(noise, 3) == noise


def test_an_epsilon_that_no_noise_gives_is_refused():
    with pytest.raises(ConfigError, match="no noise from"):
        noise_for(1e-9, DELTA, rate=1.0, steps=10**6)
