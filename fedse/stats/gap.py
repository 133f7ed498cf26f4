"""How much of the way from one method to another a third one goes, on the same games."""

from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse.stats.paired import Blocks


class GapClosed(NamedTuple):
    """A share: 0 = no more than the lower method wins, 1 = as much as the upper one."""

    value: float
    low: float
    high: float


def gap_closed(
    lower: Blocks,
    middle: Blocks,
    upper: Blocks,
    *,
    seed: int,
    resamples: int = 10_000,
    level: float = 0.95,
) -> GapClosed:
    """(middle - lower) / (upper - lower), with a two-stage bootstrap: seeds, then their games.

    Where the gap itself may well be nothing, any share is possible, and the interval says so.
    """
    won = _won(lower, middle, upper)
    drawn = _bootstrap(won, resamples, np.random.default_rng(seed))
    gap = drawn[:, 2] - drawn[:, 0]
    tail = (1 - level) / 2
    value = _share(np.mean([block.mean(axis=0) for block in won], axis=0))
    if (gap <= 0).mean() > tail:
        return GapClosed(value, -inf, inf)
    shares = (drawn[gap > 0, 1] - drawn[gap > 0, 0]) / gap[gap > 0]
    low, high = np.quantile(shares, [tail, 1 - tail]).tolist()
    return GapClosed(value, low, high)


def _won(*methods: Blocks) -> list[NDArray[np.float64]]:
    """Per seed an array of games x methods."""
    sizes = [[len(block) for block in blocks] for blocks in methods]
    if any(other != sizes[0] for other in sizes) or not sizes[0] or not all(sizes[0]):
        raise ValueError(f"expected the same seeds and games of every method, got {sizes}")
    return [np.array(games, dtype=float).T for games in zip(*methods, strict=True)]


def _bootstrap(
    won: list[NDArray[np.float64]], resamples: int, draw: np.random.Generator
) -> NDArray[np.float64]:
    """resamples x methods: success over drawn seeds, games drawn anew in each."""
    drawn = np.empty((resamples, 3))
    for index in range(resamples):
        chosen = [won[i] for i in draw.integers(len(won), size=len(won))]
        games = [block[draw.integers(len(block), size=len(block))] for block in chosen]
        drawn[index] = np.mean([block.mean(axis=0) for block in games], axis=0)
    return drawn


def _share(rates: NDArray[np.float64]) -> float:
    lower, middle, upper = rates.tolist()
    return (middle - lower) / (upper - lower) if upper > lower else nan
