"""A private step as whole numbers modulo 2^32: what a site adds to the sum, and what comes of it.

A site adds up the gradients of its units, each no longer than `clip` and rounded towards zero on
the grid, so one unit changes the sum by no more than `clip`. To that it adds its share of discrete
Gaussian noise. What wraps around modulo 2^32 is computed from the sum and tells no more.
"""

from math import ceil, frexp, sqrt
from typing import NamedTuple

import numpy as np

from fedse.aggregate.norms import Wide, squared_norm
from fedse.config.private_step import StepSection
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.privacy.discrete_gaussian import Integers, discrete_gaussian
from fedse.privacy.ratio import honest_left
from fedse.secure_sum.fixed_point import LARGEST, Whole
from fedse.types import FloatVector

FLOATS = 1.001
"""The noise hides changes that are longer than `clip` by so much: computed together with others, a
gradient has other last bits. Measured with 200 units: 1.00005 if all of them are grouped anew."""
MOST_UNITS = 4
"""Times the expected units, of which a sum still fits into the range."""
TAIL = 12.0
"""Standard deviations of the noise that fit into it as well: more come once in 10^32 numbers."""


class StepForm(NamedTuple):
    """How the private steps of one federation are written; follows from what is agreed."""

    clip: float
    units: int
    noise: float
    """Of the honest sites that must be left together, in units of `clip`; 0 = none."""
    members: int

    @property
    def spread(self) -> float:
        """Standard deviation of the noise in the sum of all sites, in units of `clip`."""
        return self.noise * sqrt(self.members / honest_left(self.members))

    @property
    def unit(self) -> float:
        """What the whole number 1 stands for: a power of two, small beside everything."""
        range = self.clip * (MOST_UNITS * self.units + TAIL * self.spread)
        return 2.0 ** -(frexp(LARGEST / range)[1] - 1)

    @property
    def sigma(self) -> int:
        """Standard deviation of one site's share on the grid, rounded up."""
        return ceil(self.noise * self.clip * FLOATS / sqrt(honest_left(self.members)) / self.unit)


def step_form(config: Config) -> StepForm:
    """What a site and the server have agreed to, each by its own settings."""
    step = config.step
    return StepForm(step.clip, step.units, step.noise or 0.0, len(config.members))


def encode_step(total: Integers, form: StepForm, secret: bytes) -> Whole:
    """The sum of a site's gradients on the grid, with its share of noise, modulo 2^32."""
    if not form.noise:
        return _wrapped(total)
    return _wrapped(total + discrete_gaussian(secret, total.size, form.sigma))


def require_bounded_sum(total: Whole, form: StepForm) -> None:
    """The sum is no longer than sound ones of so many units are; or a rejection."""
    length = sqrt(squared_norm(total.view(np.int32).astype(np.float64))) * form.unit
    # The length of the noise is below this but once in 10^14 rounds.
    noise = form.spread * (sqrt(total.size) + 8)
    allowed = form.clip * (MOST_UNITS * form.units + noise)
    if length > allowed:
        raise AdapterRejected(
            f"the sum of gradients has norm {length:.6g}, sound ones of up to {MOST_UNITS} times "
            f"step.units = {form.units} have none above {allowed:.6g}"
        )


def direction(total: Whole, form: StepForm) -> Wide:
    """The sum as a multiple of `clip`, divided by the units that were expected."""
    return total.view(np.int32).astype(np.float64) * (form.unit / (form.clip * form.units))


class Stepped(NamedTuple):
    """Where a step leads, and its velocity, which the next one goes on with."""

    end: FloatVector
    velocity: FloatVector


def take_step(
    start: FloatVector, velocity: FloatVector, total: Whole, form: StepForm, step: StepSection
) -> Stepped:
    """`start`, moved against the sum and against what is kept of the velocity."""
    kept = step.momentum * velocity.astype(np.float64)
    # Rounded here, as it is where it is stored: a resumed run goes on with the same bits.
    now = (kept + direction(total, form)).astype(np.float32)
    return Stepped((start - step.lr * now.astype(np.float64)).astype(np.float32), now)


def _wrapped(numbers: Integers) -> Whole:
    return (numbers & 0xFFFFFFFF).astype(np.uint32)
