"""The audit of private steps finds what theory says can be found, no more and no less."""

from statistics import NormalDist

import numpy as np
import pytest

from tests.needs import needs

needs("torch", "dp_accounting")

from fedse.audit.scores import auc
from research.audit_steps import Evidence, parted

COUNT, LENGTH, DEVIATION, STEPS = 200, 0.5, 2.0, 9


def gathered() -> Evidence:
    """Half of some lessons, whose gradients have nothing in common, in some steps."""
    evidence, scale = Evidence(COUNT), DEVIATION**2
    rows = LENGTH * np.eye(COUNT)
    inside = rows * (np.arange(COUNT) < COUNT // 2)[:, None]
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        noise = DEVIATION * random.normal(size=COUNT)
        evidence.add(rows, np.full(COUNT, LENGTH**2 / (2 * scale)), inside / scale, noise / scale)
    return evidence


def test_who_knows_all_but_one_finds_as_much_as_two_normal_distributions_differ():
    drawn = gathered().drawn(1 / DEVIATION, 200, seed=2)
    distance = LENGTH * STEPS**0.5 / DEVIATION
    expected = NormalDist().cdf(distance / 2**0.5)
    assert np.mean([auc(parted(row)) for row in drawn]) == pytest.approx(expected, abs=0.01)


def test_the_noise_of_the_run_is_one_more_draw():
    evidence = gathered()
    drawn = evidence.drawn(1 / DEVIATION, 200, seed=2)
    assert np.std(evidence.observed() - evidence.signal) == pytest.approx(
        np.std(drawn - (evidence.signal - evidence.half)), rel=0.2
    )


def test_without_noise_members_are_all_that_is_found():
    evidence = gathered()
    assert auc(parted(evidence.drawn(0.0, 1, seed=3)[0])) == 1.0
