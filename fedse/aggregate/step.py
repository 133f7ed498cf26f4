"""How far the server goes along the mean update: a number, or what the updates themselves say.

FedExP (arXiv 2301.09604): max(1, sum_k ||d_k||^2 / (2 K ||mean d||^2)). It needs the sum of the
updates and the sum of their squared lengths, so secure sums are enough.
"""

from collections.abc import Callable
from typing import NamedTuple

from fedse.config.aggregation import AggregateSection

# Keeps 0/0 away; `step_max` bounds what a mean of almost no length gives.
SMALLEST_SQUARE = 1e-30


class Spread(NamedTuple):
    """How far the updates of one round point apart."""

    mean_square: float
    """The mean of their squared lengths, after clipping."""
    square_of_mean: float
    """The squared length of their mean."""


def step_length(settings: AggregateSection, measure: Callable[[], Spread]) -> float:
    """How many times as far as the mean update to go; never less than `settings.step`.

    FedExP finds 1/2 where all updates are equal, and K/2 where K of one length are at right angles.
    """
    if settings.step_rule == "fixed":
        return settings.step
    spread = measure()
    found = spread.mean_square / (2 * max(spread.square_of_mean, SMALLEST_SQUARE))
    return max(settings.step, min(found, settings.step_max))
