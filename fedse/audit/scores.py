"""How well scores tell members from others: AUC, and the rate of hits at few false alarms.

A lesson has one score from an adapter that learned from it and one from an adapter that did not.
The two depend on each other, so intervals are made by drawing lessons, not scores, again.
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from fedse.stats.rates import Z_95, wilson
from fedse.types import Record

Floats = NDArray[np.float64]

FALSE_ALARMS = 0.01
"""The share of lessons that were not learned from and may be taken for members."""
DRAWS = 1000
"""Of the bootstrap: the ends of a 95 % interval are then the 25th draw from either side."""


class Estimate(Record):
    """A figure with its 95 % interval; one that is no number is refused, as it passes any limit."""

    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class Scores(NamedTuple):
    """The attacker's belief that a lesson was learned from: when it was, and when it was not."""

    members: Floats
    others: Floats


def auc(scores: Scores) -> float:
    """The probability that a member's score is the higher one; a tie counts half."""
    ranked = np.sort(scores.others)
    below = np.searchsorted(ranked, scores.members, side="left")
    at_most = np.searchsorted(ranked, scores.members, side="right")
    return float((below + at_most).sum() / (2 * len(scores.members) * len(ranked)))


def hits(scores: Scores) -> int:
    """Members above the lowest threshold that at most FALSE_ALARMS of the others exceed."""
    allowed = int(FALSE_ALARMS * len(scores.others))
    threshold = np.sort(scores.others)[::-1][allowed] if allowed < len(scores.others) else -np.inf
    return int((scores.members > threshold).sum())


def tpr(scores: Scores) -> float:
    """The share of members that are found when so few others are taken for one."""
    return hits(scores) / len(scores.members)


def auc_estimate(scores: Scores, *, seed: int) -> Estimate:
    return _bootstrapped(scores, auc, seed=seed)


def tpr_estimate(scores: Scores, *, seed: int) -> Estimate:
    """Its interval holds that of drawing lessons again and that of the count, at this threshold.

    The first alone would be empty where no member is found.
    """
    drawn = _bootstrapped(scores, tpr, seed=seed)
    counted = wilson(hits(scores), len(scores.members))
    low, high = min(drawn.low, counted.low), max(drawn.high, counted.high)
    return Estimate(value=drawn.value, low=low, high=high)


def mean_estimate(values: Floats, *, seed: int) -> Estimate:
    """The mean of independent figures, with the interval of drawing them again."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(DRAWS, len(values)))
    return _estimate(float(values.mean()), values[drawn].mean(axis=1))


def null_error(members: int, others: int) -> float:
    """The standard error of an AUC whose scores say nothing (Mann and Whitney 1947)."""
    return float(np.sqrt((members + others + 1) / (12 * members * others)))


def lessons_for(half_width: float) -> int:
    """Lessons with which the 95 % interval of an AUC near 0.5 reaches this far to either side."""
    # (2 n + 1) / (12 n^2) is below 1 / (6 n) + 1 / (12 n^2); the second part is less than a lesson.
    return ceil((Z_95 / half_width) ** 2 / 6) + 1


def _bootstrapped(scores: Scores, figure: Callable[[Scores], float], *, seed: int) -> Estimate:
    random, count = np.random.default_rng(seed), len(scores.members)
    found = np.empty(DRAWS)
    for draw in range(DRAWS):
        lessons = random.integers(count, size=count)
        found[draw] = figure(Scores(scores.members[lessons], scores.others[lessons]))
    return _estimate(figure(scores), found)


def _estimate(value: float, drawn: Floats) -> Estimate:
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(value=value, low=min(value, float(low)), high=max(value, float(high)))
