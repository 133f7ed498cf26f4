"""Whether a new global adapter is worse than the one before, from counts that the sites report.

Every site plays the same validation games with both adapters and reports how many it won. A site
may lie, so its word is bounded: of the sites' differences the `liars` smallest and as many of the
largest are left out, and the mean of the others lies between the differences of honest sites as
long as no more than `liars` sites lie.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

DRAWS = 4000
"""Simulated rounds without any change, which tell how far chance alone moves the mean."""


class Won(NamedTuple):
    """Validation games of one adapter at one site."""

    won: int
    played: int


class GateVerdict(NamedTuple):
    """What the sites' counts say about a new adapter."""

    change: float
    """The trimmed mean of the sites' changes in success."""
    bound: float
    """The smallest change that chance explains at the chosen level."""
    sites: int
    """How many sites played with both adapters."""

    @property
    def accepted(self) -> bool:
        return self.sites > 0 and self.change >= self.bound


class Harm(NamedTuple):
    """What the updates of some members do to the others."""

    change: float
    """Mean change of the others' success, without the most extreme ones."""
    bound: float
    """A change below this is unlikely to be chance."""
    proven: bool
    """The others lose more than chance explains."""
    helps: bool
    """The others win more than chance explains."""


def judge(
    before: Mapping[str, Won], after: Mapping[str, Won], *, liars: int, level: float, seed: int
) -> GateVerdict:
    """The verdict on the adapter of `after`; where too few sites played, it is not accepted.

    If nothing changed and nobody lies, an adapter is refused with a probability of at most `level`.
    """
    pairs = _pairs(before, after)
    if len(pairs) <= 2 * liars:
        return GateVerdict(0.0, 0.0, 0)
    return GateVerdict(_change(pairs, liars), _chance_bound(pairs, liars, level, seed), len(pairs))


def harm_of(
    accused: Collection[str],
    without: Mapping[str, Won],
    whole: Mapping[str, Won],
    *,
    liars: int,
    level: float,
    seed: int,
) -> Harm:
    """What the updates of `accused` do to the others, who played without them and with all.

    Nobody judges itself. The accused may be honest, so all `liars` may be among the judges, who are
    trimmed by that many, or by fewer than half of them where they are few. Nothing is proven
    against the counts of all sites, trimmed by `liars`: as long as no more lie, at least one honest
    site does better without the accused.
    """
    judges = {site: won for site, won in without.items() if site not in accused}
    most = max(0, (len(_pairs(judges, whole)) - 1) // 2)
    judged = judge(judges, whole, liars=min(liars, most), level=level, seed=seed)
    all_pairs = _pairs(without, whole)
    seen = len(all_pairs) > 2 * liars and _change(all_pairs, liars) < 0
    decided = judged.sites > 0
    return Harm(
        change=judged.change,
        bound=judged.bound,
        proven=decided and judged.change < judged.bound and seen,
        helps=decided and judged.change > -judged.bound,
    )


def _pairs(before: Mapping[str, Won], after: Mapping[str, Won]) -> list[tuple[Won, Won]]:
    """The counts of every site that played with both adapters."""
    return [
        (before[site], after[site])
        for site in sorted(before.keys() & after.keys())
        if before[site].played and after[site].played
    ]


def _change(pairs: Sequence[tuple[Won, Won]], liars: int) -> float:
    return trimmed_mean([a.won / a.played - b.won / b.played for b, a in pairs], liars)


def trimmed_mean(values: Sequence[float], dropped: int) -> float:
    """The mean without the `dropped` smallest and the `dropped` largest values."""
    kept = sorted(values)[dropped : len(values) - dropped]
    return sum(kept) / len(kept)


def _chance_bound(pairs: Sequence[tuple[Won, Won]], liars: int, level: float, seed: int) -> float:
    """The `level` quantile of the trimmed mean if every site's success is the same with both."""
    draw = np.random.default_rng(seed)
    changes = np.empty((len(pairs), DRAWS))
    for site, (before, after) in enumerate(pairs):
        # Never 0 or 1: a site that lost all its games so far may win one by chance.
        success = (before.won + after.won + 1) / (before.played + after.played + 2)
        old = draw.binomial(before.played, success, DRAWS) / before.played
        changes[site] = draw.binomial(after.played, success, DRAWS) / after.played - old
    changes.sort(axis=0)
    means = changes[liars : len(pairs) - liars].mean(axis=0)
    # The largest value below which less than `level` of the draws lie.
    return float(np.sort(means)[int(level * DRAWS)])
