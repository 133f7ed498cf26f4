"""Where in the course of a run a fit stands: its part of the schedule, and what AdamW remembers."""

import math
from typing import NamedTuple


class Arc(NamedTuple):
    """The part of a falling half cosine that the learning rate walks in one fit.

    The whole of it is divided into `whole` equal parts: `before` of them are behind, the fit walks
    the next `own`.
    """

    before: int = 0
    own: int = 1
    whole: int = 1

    def rate(self, step: int, *, of: int) -> float:
        """The share of the peak learning rate at a step, the first being 0, of a fit of `of`."""
        # Whole numbers up to the one division, so that a whole arc has the bits of pi * step / of.
        walked = self.before * of + self.own * step
        return 0.5 * (1 + math.cos(math.pi * walked / (self.whole * of)))


LEVEL = Arc(own=0)
"""The learning rate stays at its peak."""


class PrivateCourse(NamedTuple):
    """How a fit is kept from telling more about one unit than it may."""

    units: tuple[tuple[int, ...], ...]
    """The places of the lessons of each unit; every lesson is in one."""
    rate: float
    """Probability with which a unit is in a step."""
    steps: int
    clip: float
    """Norm to which the gradient of one unit is shortened."""
    noise: float
    """Standard deviation of the noise, in units of `clip`."""
    secret: bytes
    """What samples and noise are made of; it never leaves the site."""


class Course(NamedTuple):
    """What a fit must know of the rounds before and after it; by default there are none."""

    arc: Arc = Arc()
    moments: bytes | None = None
    """AdamW's state after the last fit, as the trainer wrote it; None = a fresh optimiser."""
    round: int = 0
    """The round of the experiment; 0 = the fit stands alone."""
    warm: bool = False
    """Whether this is a round of the warm start, before any exploration."""
    site: str = ""
    """Who trains."""
    stays: bool = False
    """Whether what is learned stays at the site, so that no noise is needed."""
    private: PrivateCourse | None = None
    """How the fit is kept private; None = it is not."""
