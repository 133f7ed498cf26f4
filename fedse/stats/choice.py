"""Which of several adapters to use, from the same games of all, with a bound on a wrong choice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedse.stats.paired import mcnemar


class SafeChoice(NamedTuple):
    """The adapter that was chosen and what it was chosen by."""

    name: str
    won: dict[str, int]
    """Games won by each."""
    p: dict[str, float]
    """One-sided p that an adapter is no better than the reference."""


def choose_safely(
    outcomes: Mapping[str, Sequence[bool]], *, reference: str, risk: float
) -> SafeChoice:
    """The best of those that are better than `reference` beyond doubt, else `reference` itself.

    With a probability of at least 1 - `risk` the chosen one truly solves no smaller share of such
    games than `reference`: each is compared by the exact test of McNemar at its part of the risk.
    """
    others = [name for name in outcomes if name != reference]
    p = {name: _no_better(outcomes[name], outcomes[reference]) for name in others}
    won = {name: sum(games) for name, games in outcomes.items()}
    better = [name for name in others if p[name] <= risk / len(others)]
    best = max(better, key=lambda name: (won[name], name), default=reference)
    return SafeChoice(best, won, p)


def _no_better(one: Sequence[bool], other: Sequence[bool]) -> float:
    gained = sum(a and not b for a, b in zip(one, other, strict=True))
    lost = sum(b and not a for a, b in zip(one, other, strict=True))
    if gained <= lost:
        return 1.0
    return mcnemar(gained, lost) / 2
