"""The verdict on a comparison, and how small a difference it would have detected."""

from enum import StrEnum
from math import inf
from statistics import NormalDist

from fedse.stats.paired import Difference, minimum_detectable

ALPHA = 0.05
POWER = 0.8
"""How often a difference must be detected to be called detectable."""


LEAST_P = 0.001
"""The smallest p that is shown as a number."""


def p_text(p: float) -> str:
    """`0.013`, or `< 0.001` where three digits would say that it is nothing."""
    return f"< {LEAST_P}" if p < LEAST_P else f"{p:.3f}"


class ComparisonVerdict(StrEnum):
    """Of one method against another."""

    HIGHER = "higher"
    LOWER = "lower"
    UNCLEAR = "unclear: one of several questions"
    """The interval says so, p corrected for the number of comparisons does not."""
    NONE = "no difference found"


def verdict_of(difference: Difference, p_holm: float) -> ComparisonVerdict:
    """Higher or lower where the interval and the corrected p both say so."""
    if difference.low <= 0 <= difference.high:
        return ComparisonVerdict.NONE
    if p_holm >= ALPHA:
        return ComparisonVerdict.UNCLEAR
    return ComparisonVerdict.HIGHER if difference.low > 0 else ComparisonVerdict.LOWER


def smallest_detectable(
    measured: Difference,
    *,
    games: int,
    rate: float,
    discordant: float | None,
    seeds: int,
    comparisons: int,
) -> float:
    """The smallest difference that 4 in 5 such experiments detect; inf = none.

    `games` and `rate` are those of the method compared with, `discordant` is the share of games
    only one of the two won (None = the games are not the same ones). With several comparisons each
    needs stronger evidence (Bonferroni, the first step of Holm). With several seeds it also depends
    on how much those differ, which the width of the interval shows.
    """
    alpha = ALPHA / comparisons
    least = minimum_detectable(games, rate, power=POWER, alpha=alpha, discordant=discordant)
    if seeds == 1 or discordant is None:
        return least
    z = NormalDist().inv_cdf
    error = (measured.high - measured.low) / (2 * z(0.975))
    least = max(least, (z(1 - alpha / 2) + z(POWER)) * error)
    return least if least < 1 else inf
