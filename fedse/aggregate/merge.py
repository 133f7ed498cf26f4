"""Client adapters in, next global adapter out: pure numpy, never a weight from a client.

Votes are summed in float64 in the order of client names, so the order of arrival changes no bit.
One client's adapter is in memory at a time, however many clients there are.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fedse.aggregate.norms import Wide, blocks, distance
from fedse.aggregate.step import Spread, step_length
from fedse.config.schema import AggregateSection
from fedse.types import Adapter, FloatVector


class Vote(NamedTuple):
    """One client's validated adapter, fetched when it is needed."""

    client: str
    load: Callable[[], Adapter]
    lessons: int = 1
    """Episodes the client says it learned from; only the weighted ablation believes it."""


class Merge(Protocol):
    """How variants are called; they live in AGGREGATES (fedse/aggregate/variants.py)."""

    def __call__(
        self, current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection
    ) -> Adapter: ...


def mean(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The unweighted element-wise mean of the factors: phi(t) = (1/K) sum_k phi_k(t).

    Without votes it is `current` itself. With `clip` = "median" an update longer than the median
    one is first shortened to it, which is ours and not the paper's (docs/adr/0006).
    """
    return _weighted_mean(current, votes, lambda vote: 1.0, settings)


def weighted(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The mean weighted by how many episodes each client says it learned from.

    The paper's ablation. Not for real use: a client that overstates its number decides the mean.
    """
    return _weighted_mean(current, votes, lambda vote: float(max(1, vote.lessons)), settings)


def _weighted_mean(
    current: Adapter,
    votes: Sequence[Vote],
    weight_of: Callable[[Vote], float],
    settings: AggregateSection,
) -> Adapter:
    if not votes:
        return current
    ordered = sorted(votes, key=lambda vote: vote.client)
    norms = update_norms(current, ordered, settings)
    scales = clip_scales(norms, settings)
    total: Wide = np.zeros(current.spec.size)
    weights = [weight_of(vote) for vote in ordered]
    for vote, scale, weight in zip(ordered, scales, weights, strict=True):
        _add(total, current.vector, vote.load().vector, scale, weight)
    total /= sum(weights)

    def spread() -> Spread:
        lengths = [norm * scale for norm, scale in zip(norms, scales, strict=True)]
        squares = [length**2 * weight for length, weight in zip(lengths, weights, strict=True)]
        return Spread(sum(squares) / sum(weights), distance(current.vector, total) ** 2)

    _extrapolate(total, current.vector, step_length(settings, spread))
    return Adapter(current.spec, total.astype(np.float32))


def update_norms(
    current: Adapter, votes: Sequence[Vote], settings: AggregateSection
) -> list[float]:
    """The length of each vote's update, before clipping; 0 where no setting asks for lengths."""
    if settings.clip == "none" and settings.step_rule == "fixed":
        return [0.0] * len(votes)
    return [distance(current.vector, vote.load().vector) for vote in votes]


def clip_scales(norms: Sequence[float], settings: AggregateSection) -> list[float]:
    """What each update is multiplied with so that none is longer than the lower median."""
    if settings.clip == "none":
        return [1.0] * len(norms)
    # The lower median is one of the norms, so for one or two clients the bound is a real update.
    bound = sorted(norms)[(len(norms) - 1) // 2]
    return [1.0 if norm <= bound else bound / norm for norm in norms]


def _add(
    total: Wide,
    here: FloatVector,
    there: FloatVector,
    scale: float,
    weight: float,
) -> None:
    """`total` has grown by `weight` times `there`, or the point at `scale` of the way to it."""
    if scale == 1.0 and weight == 1.0:
        total += there
        return
    for part in blocks(there.size):
        step = there[part].astype(np.float64)
        step -= here[part]
        step *= scale
        step += here[part]
        step *= weight
        total[part] += step


def _extrapolate(total: Wide, here: FloatVector, step: float) -> None:
    """`total` is `step` times as far from `here` as it was."""
    if step == 1.0:
        return
    for part in blocks(here.size):
        total[part] -= here[part]
        total[part] *= step
        total[part] += here[part]
