"""Where a fit stands in the course of a run: its part of the schedule, and what AdamW remembers."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Arc(NamedTuple):
    """The part of a falling half cosine that the learning rate follows in one fit.

    The half cosine has `whole` equal parts: `before` of them are done, and the fit covers the next
    `own`.
    """

    before: int = 0
    own: int = 1
    whole: int = 1

    def rate(self, step: int, *, of: int) -> float:
        """Share of the peak learning rate at `step`, counted from 0, in a fit of `of` steps."""
        # Whole numbers up to the one division, so that a whole arc has the bits of pi * step / of.
        walked = self.before * of + self.own * step
        return 0.5 * (1 + math.cos(math.pi * walked / (self.whole * of)))


LEVEL = Arc(own=0)
"""The learning rate stays at its peak."""


class PrivateCourse(NamedTuple):
    """How a fit is kept from revealing more about one unit than it may."""

    units: tuple[tuple[int, ...], ...]
    """The places of the lessons of each unit; every lesson is in one."""
    rate: float
    """Probability that a unit takes part in a step."""
    steps: int
    clip: float
    """Norm to which the gradient of one unit is clipped."""
    noise: float
    """Standard deviation of the noise, in units of `clip`."""
    secret: bytes
    """What samples and noise are made of; it never leaves the site."""


class StepCourse(NamedTuple):
    """What a sum of gradients is made of."""

    units: tuple[tuple[int, ...], ...]
    """The places of the lessons of each unit."""
    clip: float
    """Norm to which the gradient of one unit is shortened."""
    unit: float
    """What a whole number stands for; a power of two."""


class GradientSum(NamedTuple):
    """The sum of the gradients of a site's units, and the mean of their losses; it stays there."""

    total: NDArray[np.int64]
    loss: float


class Course(NamedTuple):
    """What a fit must know of the rounds before and after it; by default there are none."""

    arc: Arc = Arc()
    moments: bytes | None = None
    """AdamW's state after the last fit, as the trainer wrote it; None = a fresh optimiser."""
    round: int = 0
    """The round of the experiment; 0 = the fit is independent of any round."""
    warm: bool = False
    """Whether this is a round of the warm start, before any exploration."""
    site: str = ""
    """Who trains."""
    stays: bool = False
    """Whether what is learned stays at the site, so that no noise is needed."""
    private: PrivateCourse | None = None
    """How the fit is kept private; None = it is not."""
