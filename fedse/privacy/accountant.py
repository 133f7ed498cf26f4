"""What noisy steps tell about one unit, by the accountant of dp-accounting.

Renyi divergences of Poisson-sampled Gaussian noise (arXiv 1908.10530), added up over all steps.
Neighbours are buffers that differ in one unit being there or not.
"""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from fedse.config.privacy import Unit
from fedse.errors import ConfigError, require_packages

ORDERS = (*range(2, 33), 36, 40, 48, 56, 64, 96, 128, 256)
"""Renyi orders that are tried; for other than whole ones the library's series may not converge."""
LEAST_NOISE, MOST_NOISE = 0.2, 1e4
# Noise is rounded up to this many digits, so that it can be read and written down.
DIGITS = 3
# The same steps in another order of addition.
ROUNDING = 1e-9

Spent = frozenset[tuple[float, float, int]]
"""Rate, noise, and steps taken with them."""


class Charge(NamedTuple):
    """Steps with noise on a site's buffer, in one round of one experiment."""

    experiment: str
    round: int
    unit: Unit
    rate: float
    noise: float
    """In units of the clipping norm; 0 = there was none."""
    steps: int


def epsilon_of(charges: Iterable[Charge], *, delta: float) -> float:
    """What all of them tell about one unit together; infinite if one had no noise."""
    taken = Counter[tuple[float, float]]()
    for charge in charges:
        if charge.steps and not charge.noise:
            return math.inf
        taken[charge.rate, charge.noise] += charge.steps
    return _epsilon(frozenset((*how, steps) for how, steps in taken.items() if steps), delta)


def is_within(epsilon: float, spent: float) -> bool:
    """Whether no more was spent than `epsilon`."""
    return spent <= epsilon * (1 + ROUNDING)


@lru_cache(maxsize=256)
def noise_for(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """The least noise with which so many steps stay within epsilon, rounded up."""
    _require_library()
    from dp_accounting import mechanism_calibration as calibration

    try:
        least: float = calibration.calibrate_dp_mechanism(
            _accountant,
            lambda noise: _steps(rate, noise, steps),
            epsilon,
            delta,
            calibration.ExplicitBracketInterval(LEAST_NOISE, MOST_NOISE),
            tol=10.0 ** -(DIGITS + 1),
        )
    except ValueError:
        raise ConfigError(
            f"no noise from {LEAST_NOISE:g} to {MOST_NOISE:g} gives {steps} steps at a rate of "
            f"{rate:g} an epsilon of {epsilon:g} with delta {delta:g}",
            hint="set privacy.noise, or another epsilon",
        ) from None
    return float(math.ceil(least * 10**DIGITS) / 10**DIGITS)


@lru_cache(maxsize=256)
def _epsilon(spent: Spent, delta: float) -> float:
    if not spent:
        return 0.0
    _require_library()
    accountant = _accountant()
    for rate, noise, steps in sorted(spent):
        accountant.compose(_steps(rate, noise, steps))
    return float(accountant.get_epsilon(delta))


def _accountant() -> Any:
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(ORDERS)


def _steps(rate: float, noise: float, steps: int) -> Any:
    import dp_accounting

    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def _require_library() -> None:
    require_packages("privacy.epsilon", "dp_accounting", extra="privacy")
