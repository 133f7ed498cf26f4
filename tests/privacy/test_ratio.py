"""What noise leaves of an update: published figures, and what must rise with what."""

import json
from math import sqrt
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("dp_accounting")

from fedse.privacy.measured import (
    ADDED,
    ENOUGH,
    PLENTY,
    RECORDED,
    SIGNALS,
    STEPPED,
    gain_at,
    signal_at,
)
from fedse.privacy.ratio import honest_left, in_one_step, of_mean, ratio, shared_noise, sites_for

BOTH, ONLY_B = 58_368, 31_744
"""Numbers of the adapter that was measured."""
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "signal.json"

sites = st.integers(3, 60)
sizes = st.integers(1, 10_000)


def published(units: int) -> float:
    """Noise of 0.742 in 20 steps at rate 0.1, clip 1, both factors."""
    noise = in_one_step(0.742, rate=0.1, steps=20)
    return ratio(units, signal=signal_at(1.0), noise=noise, numbers=BOTH)


def shared(members: int, epsilon: float, units: int = 200) -> float:
    noise = shared_noise(epsilon, 1e-5, sites=members)
    return ratio(units * members, signal=0.178, noise=noise, numbers=ONLY_B)


def test_the_arm_with_noise_had_the_ratios_that_were_found():
    assert round(published(200), 2) == 0.04
    assert round(of_mean(published(200), 5), 2) == 0.09


def test_one_noise_in_a_sum_leaves_what_was_simulated():
    assert round(shared(5, 8.0), 2) == 1.29
    assert round(shared(5, 3.0), 2) == 0.56
    assert round(shared(20, 3.0) / shared(5, 8.0), 2) == round(1 / 0.71, 2)


@pytest.mark.parametrize(("epsilon", "noise"), [(8.0, 0.601), (3.0, 1.391), (1.0, 3.731)])
def test_the_noise_of_a_sum_is_that_of_one_release_over_what_is_surely_honest(
    epsilon: float, noise: float
):
    assert shared_noise(epsilon, 1e-5, sites=3) == noise
    assert shared_noise(epsilon, 1e-5, sites=5) == pytest.approx(noise * sqrt(5 / 3))


@pytest.mark.parametrize(
    ("members", "honest", "longer"), [(5, 3, 1.29), (10, 4, 1.58), (20, 8, 1.58), (50, 18, 1.67)]
)
def test_the_honest_that_must_be_left(members: int, honest: int, longer: float):
    assert honest_left(members) == honest
    assert round(sqrt(members / honest), 2) == longer


@given(sites, sizes, st.sampled_from([1.0, 3.0, 8.0]))
def test_more_units_more_epsilon_and_more_sites_are_better(members: int, units: int, spent: float):
    assert shared(members, spent, units) < shared(members, spent, units + 1)
    assert shared(members, spent, units) < shared(members, 2 * spent, units)
    # With one site more, one more may be corrupt.
    assert shared(members, spent, units) < shared(members + 3, spent, units)
    assert of_mean(1.0, members) < of_mean(1.0, members + 1)
    assert published(units) < published(units + 1)


@given(st.floats(0.05, 20), st.floats(1.0, 30))
def test_from_that_many_sites_on_it_is_enough(wanted: float, weight: float):
    at = lambda members: sqrt(members * honest_left(members)) / weight  # noqa: E731
    found = sites_for(wanted, at, least=3)
    assert found is not None
    assert all(at(more) >= wanted for more in range(found, found + 200))
    assert found == 3 or min(at(found - 1 + more) for more in range(3)) < wanted
    assert sites_for(1.0, lambda members: 0.0) is None


def test_what_was_measured_is_what_is_told():
    found = json.loads(RESULTS.read_text())
    assert {
        float(c): s for c, s in found["signal"].items() if float(c) in SIGNALS
    } == pytest.approx(dict(SIGNALS), abs=1e-4)
    loss = found["loss"]
    gains = {r: (loss["before"] - loss[f"{r:g}"]) / (loss["before"] - loss["inf"]) for r in ADDED}
    assert {r: max(0.0, gain) for r, gain in gains.items()} == pytest.approx(dict(ADDED), abs=1e-3)
    assert found["numbers"] == {"all": BOTH, "moved": ONLY_B}


def test_what_private_steps_kept_is_what_is_told():
    """R by the rule of the plan, from what is on record of the steps themselves."""
    rows = json.loads((RESULTS.parent / "private-step.json").read_text())["rows"]
    of = {(row["arm"], row["seed"]): row for row in rows}
    found = []
    for seed in {seed for arm, seed in of if arm == "steps-8"}:
        before, plain, noisy = (of[arm, seed] for arm in ("before", "steps", "steps-8"))
        first, steps = noisy["steps"][0]["signal"], len(noisy["steps"])
        kept, gain = (before["held-out loss"] - one["held-out loss"] for one in (noisy, plain))
        found.append((first * sqrt(steps) / noisy["noise of a step"], kept / gain))
    ratios, shares = zip(*found, strict=True)
    ((told, share),) = RECORDED.items()
    assert told == pytest.approx(fmean(ratios), abs=0.01)
    assert share == pytest.approx(fmean(shares), abs=0.01)
    # The same rule, from sizes and noise alone.
    assert shared(5, 8.0) == pytest.approx(told, rel=0.05)


def test_between_measurements_and_beyond_them():
    assert signal_at(2.0) == pytest.approx(0.0409, abs=3e-4), "measured, but not in the table"
    assert signal_at(0.01) == signal_at(0.05)
    assert 0.0813 < signal_at(0.7) < 0.1617
    for measured in (ADDED, STEPPED):
        assert gain_at(0.0, measured) == gain_at(0.1, measured) == 0.0
        assert gain_at(99.0, measured) == max(measured.values())
        shares = [gain_at(step / 50, measured) for step in range(150)]
        assert shares == sorted(shares)
    assert gain_at(ENOUGH, ADDED) > 0.9 > gain_at(0.49, STEPPED)
    assert gain_at(PLENTY, STEPPED) > 0.9
