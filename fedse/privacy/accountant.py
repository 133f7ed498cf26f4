"""What noisy steps tell about one unit, by the accountant of dp-accounting.

Distributions of the privacy loss of Poisson-sampled Gaussian noise (arXiv 2207.04380), convolved
over all steps. Renyi divergences (arXiv 1908.10530), which tell up to a fifth too much and cost
nothing, say where to look. Neighbours are buffers that differ in one unit being there or not.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from fedse.config.privacy import Unit
from fedse.errors import ConfigError, require_packages

LOSS_STEP = 1e-3
"""To which losses are rounded up: ten times finer brings 0.02 % and costs ten times as much."""
ORDERS = (*range(2, 33), 36, 40, 48, 56, 64, 96, 128, 256)
"""Of the divergences; for other than whole ones the library's series may not converge."""
HOPELESS, HOPELESS_DELTA = 100.0, 1e-5
"""An epsilon above which no more than the divergences are asked: distributions become long."""
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
    spent = spent_by(charges)
    return math.inf if spent is None else _epsilon(spent, delta)


def spent_by(charges: Iterable[Charge]) -> Spent | None:
    """All steps that were taken alike, together; None if one had no noise."""
    taken = Counter[tuple[float, float]]()
    for charge in charges:
        if charge.steps and not charge.noise:
            return None
        taken[charge.rate, charge.noise] += charge.steps
    return frozenset((*how, steps) for how, steps in taken.items() if steps)


def is_within(epsilon: float, spent: float) -> bool:
    """Whether no more was spent than `epsilon`."""
    return spent <= epsilon * (1 + ROUNDING)


@lru_cache(maxsize=256)
def noise_for(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """The least noise with which so many steps stay within epsilon, rounded up."""
    _require_library()
    from dp_accounting import mechanism_calibration as calibration

    def least(make: Callable[[], Any], low: float, high: float) -> float:
        ends = calibration.ExplicitBracketInterval(low, high)
        found = calibration.calibrate_dp_mechanism(
            make,
            lambda noise: _steps(rate, noise, steps),
            epsilon,
            delta,
            ends,
            tol=10.0 ** -(DIGITS + 1),
        )
        return float(found)

    try:
        enough = least(_divergences, LEAST_NOISE, MOST_NOISE)
        found = least(_losses, max(LEAST_NOISE, enough / 2), enough)
    except ValueError:
        raise ConfigError(
            f"no noise from {LEAST_NOISE:g} to {MOST_NOISE:g} gives {steps} steps at a rate of "
            f"{rate:g} an epsilon of {epsilon:g} with delta {delta:g}",
            hint="set privacy.noise, or another epsilon",
        ) from None
    return float(math.ceil(found * 10**DIGITS) / 10**DIGITS)


@lru_cache(maxsize=256)
def _epsilon(spent: Spent, delta: float) -> float:
    if not spent:
        return 0.0
    most = float(_composed(spent, _divergences).get_epsilon(delta))
    exact = losses_of(spent)
    return most if exact is None else min(most, float(exact.get_epsilon(delta)))


def losses_of(spent: Spent) -> Any:
    """The library's accountant of all these steps; None if they tell hopelessly much."""
    most = float(_composed(spent, _divergences).get_epsilon(HOPELESS_DELTA))
    return None if most > HOPELESS else _composed(spent, _losses)


def _composed(spent: Spent, make: Callable[[], Any]) -> Any:
    _require_library()
    accountant = make()
    for rate, noise, steps in sorted(spent):
        accountant.compose(_steps(rate, noise, steps))
    return accountant


def _divergences() -> Any:
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(ORDERS)


def _losses() -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, LOSS_STEP)


def _steps(rate: float, noise: float, steps: int) -> Any:
    import dp_accounting

    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def _require_library() -> None:
    require_packages("privacy.epsilon", "dp_accounting", extra="privacy")
