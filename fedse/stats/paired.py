"""Two methods on the same games: how much they differ, how certain that is, what could be missed.

Outcomes come as blocks: one list of games per seed, so per pair of runs. Games of one seed share
an adapter, so they are not independent; a claim about methods must hold for other seeds too. All
functions are pure: the same seed gives the same numbers.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse.stats.rates import Interval

Blocks = Sequence[Sequence[bool]]
"""Per seed, whether each game was won."""
Array = NDArray[np.float64]
RESAMPLES, LEVEL = 10_000, 0.95


class Difference(NamedTuple):
    """How much more often `a` succeeded than `b`, as a share of games."""

    value: float
    low: float
    high: float
    p: float
    """Two-sided p-value of the hypothesis of no difference."""

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high)


class Differences(NamedTuple):
    """The same comparison by group and over all of them."""

    groups: dict[str, Difference]
    micro: Difference
    """All games together."""
    macro: Difference
    """The mean of the groups' differences: every group counts equally."""


class _Counts(NamedTuple):
    """Arrays of shape (seeds, groups)."""

    better: Array
    """Games only `a` won."""
    worse: Array
    n: Array


def paired_difference(a: Blocks, b: Blocks, *, seed: int, resamples: int = RESAMPLES) -> Difference:
    """a - b over all games, with a two-stage bootstrap interval: seeds, then games within each.

    Drawing both stages plainly counts the luck of single games twice and the spread of few seeds
    too low, so seeds move only by what their games do not explain (shrinkage, Davison and Hinkley
    1997, section 3.8), stretched as in Student's t. Half a game is added to either way of
    differing (Agresti and Min 2005), so that equal outcomes do not look certain. In simulation
    the 95 % interval covers the truth in 92 to 97 % from five seeds on; for two or three seeds
    that differ by more than their games' luck in about 90 %, where pooled games give 73 %.

    With one seed only games are drawn, and the interval is about these two adapters, not about
    their methods; p is then McNemar's exact one. With more seeds p is the bootstrap's, since
    flipping the signs of n seeds cannot give less than 2 / 2^n.
    """
    counts = _count({"": a}, {"": b})
    weights = len(a) * counts.n / counts.n.sum()
    return _estimate(counts, weights, seed=seed, resamples=resamples)


def paired_differences(
    a: Mapping[str, Blocks], b: Mapping[str, Blocks], *, seed: int
) -> Differences:
    """`paired_difference` for each group (client or environment), all games, and their mean.

    Block i of every group is the same seed, so the groups' seeds are drawn together.
    """
    counts = _count(a, b)
    seeds, groups = counts.n.shape

    estimate = partial(_estimate, seed=seed)
    # A game counts the same in whatever seed it was played; seeds are averaged afterwards.
    within = seeds * counts.n / counts.n.sum(axis=0)
    overall = seeds * counts.n / counts.n.sum()
    by_group = {
        name: estimate(_Counts(*(array[:, [i]] for array in counts)), within[:, [i]])
        for i, name in enumerate(a)
    }
    macro = estimate(counts, within / groups, exact=False)
    return Differences(by_group, estimate(counts, overall), macro)


def blocks_by_group(
    seeds: Sequence[Mapping[str, Sequence[bool]]], group_of: Mapping[str, str]
) -> dict[str, Blocks]:
    """Per group and seed, the games of its members one after another; all in order of name.

    `seeds` holds per seed each member's games, won or not.
    """
    return {
        group: [
            [won for member in sorted(seed) if group_of[member] == group for won in seed[member]]
            for seed in seeds
        ]
        for group in sorted({group_of[member] for seed in seeds for member in seed})
    }


def discordant_share(a: Mapping[str, Blocks], b: Mapping[str, Blocks]) -> float:
    """The share of games that only one of the two won."""
    pairs = [
        won != lost
        for group in a
        for both in zip(a[group], b[group], strict=True)
        for won, lost in zip(*both, strict=True)
    ]
    return sum(pairs) / len(pairs)


def mcnemar(better: int, worse: int) -> float:
    """Exact two-sided p of no difference, from the games only one of two methods won."""
    if min(better, worse) < 0:
        raise ValueError(f"expected counts >= 0, got {better} and {worse}")
    n, ways, total = better + worse, 1, 0
    for k in range(min(better, worse) + 1):
        total += ways
        ways = ways * (n - k) // (k + 1)
    return min(1.0, 2 * total / (1 << n))


def two_proportions(s1: int, n1: int, s2: int, n2: int) -> float:
    """Two-sided p of no difference between independent proportions (score test)."""
    if not (0 <= s1 <= n1 and 0 <= s2 <= n2 and n1 and n2):
        raise ValueError(f"expected 0 <= won <= played > 0, got {s1} of {n1} and {s2} of {n2}")
    p = (s1 + s2) / (n1 + n2)
    spread = sqrt(p * (1 - p) * (1 / n1 + 1 / n2))
    return 2 * NormalDist().cdf(-abs(s1 / n1 - s2 / n2) / spread) if spread else 1.0


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p adjusted for the number of comparisons (Holm 1979).

    Where only those below alpha are reported, the chance of any false one is at most alpha.
    """
    order = sorted(p, key=lambda name: p[name])
    adjusted, highest = {}, 0.0
    for rank, name in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p}


def minimum_detectable(
    n: int, p: float, *, power: float = 0.8, alpha: float = 0.05, discordant: float | None = None
) -> float:
    """The difference from a method of rate `p` that `n` games each detect with this power.

    Normal approximation, two-sided, towards one half, where it is harder to see. With
    `discordant`, the share of games only one of the two won, the games are the same ones (Connor
    1987) and p does not matter. inf = even the greatest difference would be missed.
    """
    low, high = 0.0, max(p, 1 - p) if discordant is None else 1.0
    if n < 1 or _needed(high, p, power, alpha, discordant) > n:
        return inf
    for _ in range(60):
        middle = (low + high) / 2
        if _needed(middle, p, power, alpha, discordant) > n:
            low = middle
        else:
            high = middle
    return high


def _needed(d: float, p: float, power: float, alpha: float, discordant: float | None) -> float:
    """Games per method that detect the difference d."""
    z_alpha, z_power = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    if discordant is not None:
        # A difference of d cannot come from fewer than d of the games.
        share = max(discordant, d)
        return float((z_alpha * sqrt(share) + z_power * sqrt(share - d * d)) ** 2 / d**2)
    other = p + d if p <= 0.5 else p - d
    mean = (p + other) / 2
    variances = p * (1 - p) + other * (1 - other)
    return float((z_alpha * sqrt(2 * mean * (1 - mean)) + z_power * sqrt(variances)) ** 2 / d**2)


def _count(a: Mapping[str, Blocks], b: Mapping[str, Blocks]) -> _Counts:
    shape = {name: [len(block) for block in blocks] for name, blocks in a.items()}
    other = {name: [len(block) for block in blocks] for name, blocks in b.items()}
    if shape != other or len({len(sizes) for sizes in shape.values()}) != 1:
        raise ValueError(f"expected the same groups, seeds and games, got {shape} and {other}")
    sizes = np.array(list(shape.values()), dtype=float).T
    if not sizes.size or not sizes.all():
        raise ValueError(f"expected at least one game of every seed and group, got {shape}")

    def only(first: Mapping[str, Blocks], second: Mapping[str, Blocks]) -> Array:
        rows = [
            [sum(x > y for x, y in zip(*pair, strict=True)) for pair in zip(*both, strict=True)]
            for both in ((first[name], second[name]) for name in first)
        ]
        return np.array(rows, dtype=float).T

    return _Counts(only(a, b), only(b, a), sizes)


def _estimate(
    counts: _Counts,
    weights: Array,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    exact: bool = True,
) -> Difference:
    """`exact`: games are weighted alike, so with one seed McNemar's test applies."""
    value, drawn = _bootstrap(counts, weights, resamples, np.random.default_rng(seed))
    tail = (1 - LEVEL) / 2
    low, high = np.clip(np.quantile(drawn, [tail, 1 - tail]), -1, 1).tolist()
    if exact and len(counts.n) == 1:
        p = mcnemar(int(counts.better.sum()), int(counts.worse.sum()))
    else:
        p = _sign_share(drawn)
    return Difference(value, low, high, p)


def _bootstrap(
    counts: _Counts, weights: Array, resamples: int, draw: np.random.Generator
) -> tuple[float, Array]:
    """The difference, groups weighted, and `resamples` bootstrap values of it."""
    better, worse, n = counts
    seeds = len(n)
    rates = ((better - worse) / n * weights).sum(axis=1)
    value = float(rates.mean())
    ways = np.stack([better + 0.5, worse + 0.5, n - better - worse], axis=-1)
    chances = ways / (n + 1)[..., None]
    centre = chances[..., 0] - chances[..., 1]
    # A variance estimated from n games has n - 1 degrees of freedom.
    free = np.maximum(n - 1, 1)

    chosen = draw.integers(seeds, size=(resamples, seeds))
    redrawn: Any = draw.multinomial(n.astype(int)[chosen], chances[chosen])
    luck = (redrawn[..., 0] - redrawn[..., 1]) / n[chosen] - centre[chosen]
    drawn: Array = value + (luck * (weights * np.sqrt(n / free))[chosen]).sum(axis=2).mean(axis=1)
    if (spread := float(rates.var())) > 0:
        within = ((chances[..., 0] + chances[..., 1] - centre**2) / free * weights**2).sum(axis=1)
        between = max(0.0, float(rates.var(ddof=1) - within.mean()))
        shift = ((rates - value) * sqrt(between / spread))[chosen].mean(axis=1)
        drawn += shift * np.sqrt((seeds - 1) / draw.chisquare(seeds - 1, resamples))
    return value, drawn


def _sign_share(drawn: Array) -> float:
    """Two-sided p: how rarely a draw lies beyond zero, never 0 for a finite number of draws."""
    beyond = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(drawn) + 1))
