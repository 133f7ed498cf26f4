"""Client adapters in, next global adapter out: pure numpy, never a weight from a client.

Votes are summed in float64 in the order of client names, so the order of arrival changes no bit.
Adapters are added up block by block, so however many clients there are, of those that are mapped
files a block is in memory at a time, and none is copied.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from fedse.aggregate.norms import CONVERTED, Wide, blocks, distance
from fedse.aggregate.validate import Payload, load_checked, parse_adapter
from fedse.config.aggregation import AggregateSection
from fedse.types import Adapter, FloatVector


class Vote(NamedTuple):
    """One client's validated adapter, loaded when it is needed."""

    client: str
    load: Callable[[], Adapter]
    lessons: int = 1
    """Episodes the client claims to have learned from; only the weighted ablation relies on it."""
    length: float | None = None
    """Euclidean length of its update, if that was measured when the adapter was checked."""
    weight: float = 1.0
    """What it counts; a vote of an earlier round counts less than one of this round."""
    blocks: tuple[str, ...] = ()
    """The blocks of the adapter that the vote is on; empty = all of it."""


class Merge(Protocol):
    """A way to merge that keeps no state; `stateless` turns it into an aggregator."""

    def __call__(
        self, current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection
    ) -> Adapter: ...


def checked_vote(
    client: str,
    read: Callable[[], Payload],
    lessons: int,
    current: Adapter,
    settings: AggregateSection,
    weight: float = 1.0,
) -> Vote:
    """The vote in the bytes of a reply, its update measured if a setting asks; or a rejection."""
    adapter = parse_adapter(read(), current.spec, settings)
    length = distance(current.vector, adapter.vector) if needs_lengths(settings) else None
    return Vote(client, partial(load_checked, read, current.spec), lessons, length, weight)


class VoteShare(NamedTuple):
    """What one vote counts in a mean."""

    norm: float
    """Length of its update before clipping."""
    scale: float
    """The factor that scales its update to at most the bound."""
    weight: float


WEIGHTS: Mapping[str, Callable[[int], float]] = {
    "mean": lambda lessons: 1.0,
    "weighted": lambda lessons: float(max(1, lessons)),
}
"""The weight of a vote by its lessons, for each kind of mean."""


def weight_of(vote: Vote, kind: str) -> float:
    """What a vote counts in a mean of this kind."""
    return WEIGHTS[kind](vote.lessons) * vote.weight


def late_weight(rounds: int) -> float:
    """What a vote counts that comes so many rounds late (FedBuff, arXiv 2106.06639)."""
    return float((1 + rounds) ** -0.5)


def mean(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The unweighted element-wise mean of the factors: phi(t) = (1/K) sum_k phi_k(t).

    Without votes it is `current` itself. With `clip` = "median" an update longer than the median
    one is first shortened to it, which is ours and not the paper's (docs/adr/0006).
    """
    return _weighted_mean(current, votes, "mean", settings)


def weighted(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The mean weighted by how many episodes each client says it learned from.

    The paper's ablation. Not for real use: a client that overstates its number decides the mean.
    """
    return _weighted_mean(current, votes, "weighted", settings)


def _weighted_mean(
    current: Adapter, votes: Sequence[Vote], kind: str, settings: AggregateSection
) -> Adapter:
    if not votes:
        return current
    ordered = sorted(votes, key=lambda vote: vote.client)
    norms = update_norms(current, ordered, settings)
    shares = shares_of(norms, [weight_of(vote, kind) for vote in ordered], settings)
    total_in = partial(ordered_total, current, ordered, shares)
    return along_the_mean(current, total_in, shares, settings)


def shares_of(
    norms: Sequence[float], weights: Sequence[float], settings: AggregateSection
) -> list[VoteShare]:
    """What votes of these lengths and weights count, once the longest are clipped."""
    scales = clip_scales(norms, settings)
    return [VoteShare(*each) for each in zip(norms, scales, weights, strict=True)]


def along_the_mean(
    current: Adapter,
    total_in: Callable[[slice], Wide],
    shares: Sequence[VoteShare],
    settings: AggregateSection,
) -> Adapter:
    """The adapter one step along the mean; `total_in` gives the weighted sum for each block."""
    here, whole = current.vector, sum(share.weight for share in shares)

    merged = np.empty(here.size, dtype=np.float32)
    for part in blocks(here.size):
        merged[part] = _extrapolated(total_in(part) / whole, here[part], settings.step)
    return Adapter(current.spec, merged)


def ordered_total(
    current: Adapter, votes: Sequence[Vote], shares: Sequence[VoteShare], part: slice
) -> Wide:
    """The weighted sum of clipped votes in their order, rounded to float64 after each."""
    total: Wide = np.zeros(part.stop - part.start)
    here, room = current.vector[part], np.empty((2, CONVERTED))
    for vote, (_, scale, weight) in zip(votes, shares, strict=True):
        there = vote.load().vector[part]
        if scale == 1.0 and weight == 1.0:
            total += there
            continue
        for inner in blocks(there.size, CONVERTED):
            total[inner] += vote_term(here[inner], there[inner], scale, weight, room)
    return total


def update_norms(
    current: Adapter, votes: Sequence[Vote], settings: AggregateSection
) -> list[float]:
    """The length of each vote's update, before clipping; 0 where no setting asks for lengths."""
    if not needs_lengths(settings):
        return [0.0] * len(votes)
    return lengths_of(current, votes)


def lengths_of(current: Adapter, votes: Sequence[Vote]) -> list[float]:
    """The Euclidean length of each vote's update."""
    return [
        distance(current.vector, vote.load().vector) if vote.length is None else vote.length
        for vote in votes
    ]


def needs_lengths(settings: AggregateSection) -> bool:
    """Whether a rule asks how long each update is."""
    return settings.clip != "none"


def clip_scales(norms: Sequence[float], settings: AggregateSection) -> list[float]:
    """What each update is multiplied with so that none is longer than the lower median."""
    bound = clip_bound(norms, settings)
    return [clip_scale(norm, bound) for norm in norms]


def clip_bound(norms: Sequence[float], settings: AggregateSection) -> float | None:
    """The length no update may exceed; None = any length is allowed."""
    if settings.clip == "none":
        return None
    # The lower median is one of the norms, so for one or two clients the bound is a real update.
    return sorted(norms)[(len(norms) - 1) // 2]


def clip_scale(norm: float, bound: float | None) -> float:
    """The factor that scales an update of this length to at most `bound`."""
    if bound is None:
        return 1.0
    return 1.0 if norm <= bound else bound / norm


def vote_term(
    here: FloatVector, there: FloatVector, scale: float, weight: float, room: Wide | None = None
) -> Wide:
    """`weight` times `there`, or times the point at `scale` of the way to it; made in `room`."""
    places: Wide = np.empty((2, there.size)) if room is None else room[:, : there.size]
    term: Wide = places[0]
    term[:] = there
    if scale == 1.0 and weight == 1.0:
        return term
    begun: Wide = places[1]
    begun[:] = here
    term -= begun
    term *= scale
    term += begun
    if weight != 1.0:
        term *= weight
    return term


def _extrapolated(total: Wide, here: FloatVector, step: float) -> Wide:
    """`total`, now `step` times as far from `here` as it was."""
    if step != 1.0:
        total -= here
        total *= step
        total += here
    return total
