"""Sums of regions: what a region sends instead of its adapters, and the adapter made of them.

A region adds up the votes of its sites without rounding, each clipped at a bound that is the same
everywhere. Exact sums compose: however the votes are divided into regions, the adapter is the
same, bit for bit (docs/adr/0034). They travel over Flower (docs/adr/0057).

On the wire a sum is its planes one after another, little-endian float64. Nothing of it is
interpreted: how many planes there are follows from the length.
"""

from collections.abc import Callable, Sequence
from math import isfinite, sqrt

import numpy as np

from fedse.aggregate.exact import MOST_PLANES, Planes, add_exactly, add_planes, rounded, settled
from fedse.aggregate.merge import (
    Vote,
    VoteShare,
    along_the_mean,
    clip_scale,
    update_norms,
    vote_term,
    weight_of,
)
from fedse.aggregate.norms import CACHED, Wide, blocks, distance_by_blocks
from fedse.aggregate.validate import LARGEST_NORM, Payload, factor_of
from fedse.config.aggregation import AggregateSection
from fedse.errors import AdapterRejected
from fedse.types import Adapter, AdapterSpec

ROUNDING = 1e-6
"""Relative; lengths are computed in float64, in another order here than at the region."""

NUMBER = 8
"""Bytes of a float64."""


def regional_sum(
    current: Adapter, votes: Sequence[Vote], *, bound: float | None, settings: AggregateSection
) -> Planes:
    """The exact weighted sum of these votes, each update clipped at `bound`; None = not clipped.

    It has the fewest planes, and equal sums have equal bytes.
    """
    norms = update_norms(current, votes, settings)
    shares = [
        VoteShare(norm, clip_scale(norm, bound), weight_of(vote, settings.type))
        for norm, vote in zip(norms, votes, strict=True)
    ]
    size = current.spec.size
    summed: Planes = [np.zeros(size)]
    for part in blocks(size):
        for depth, plane in enumerate(settled(_exact_planes(current, votes, shares, part))):
            if depth == len(summed):
                summed.append(np.zeros(size))
            summed[depth][part] = plane
    return summed


def sum_to_bytes(planes: Sequence[Wide]) -> bytes:
    """The sum as it is sent, stored and hashed."""
    return b"".join(plane.astype("<f8", copy=False).tobytes() for plane in planes)


def learned_planes(planes: Sequence[Wide], spec: AdapterSpec, part: AdapterSpec) -> Planes:
    """The planes of the tensors that `part` has; at least one plane remains."""
    if part == spec:
        return list(planes)
    places = [spec.slices[tensor.name] for tensor in part.tensors]
    learned = [np.concatenate([plane[place] for place in places]) for plane in planes]
    return [learned[0], *(plane for plane in learned[1:] if plane.any())]


def with_resting_planes(
    planes: Sequence[Wide], part: AdapterSpec, current: Adapter, *, weight: float
) -> Planes:
    """The planes of a whole sum: what `part` lacks is `weight` times as in `current`, exactly."""
    if part == current.spec:
        return list(planes)
    whole: Planes = [weight * current.vector.astype(np.float64)]
    whole += [np.zeros(current.spec.size) for _ in planes[1:]]
    for plane, learned in zip(whole, planes, strict=True):
        for name, place in part.slices.items():
            plane[current.spec.slices[name]] = learned[place]
    return whole


def parse_sum(data: Payload, spec: AdapterSpec) -> list[Wide]:
    """The planes in `data`, where they are; any other length than that of planes is rejected."""
    whole, left = divmod(len(data), NUMBER * spec.size)
    if left or not 1 <= whole <= MOST_PLANES:
        raise AdapterRejected(
            f"a sum of {len(data)} bytes, expected 1 to {MOST_PLANES} times {NUMBER * spec.size}"
        )
    return list(np.frombuffer(data, dtype="<f8").reshape(whole, spec.size))


def require_sound_sum(
    planes: Sequence[Wide],
    current: Adapter,
    *,
    weight: float,
    bound: float | None,
    settings: AggregateSection,
) -> None:
    """The mean of the sum is finite, and as near to `current` as that of clipped votes must be.

    So a region that lies has no more influence than as many sites of its own would have.
    """
    largest = min(settings.max_norm, LARGEST_NORM)
    for factor, norm in _factor_norms(planes, current.spec, weight).items():
        if not isfinite(norm):
            raise AdapterRejected(f"factor {factor} of the sum holds a number that is not finite")
        if norm > largest * (1 + ROUNDING):
            raise AdapterRejected(
                f"factor {factor} of the sum has norm {norm:.8g} per vote, allowed is {largest:.8g}"
            )
    if bound is None:
        return

    def mean_in(part: slice) -> Wide:
        return rounded([plane[part] for plane in planes]) / weight

    moved = distance_by_blocks(current.vector, mean_in)
    # An update of no length is as long as the rounding of the adapter itself.
    room = ROUNDING * (bound + float(np.linalg.norm(current.vector)))
    if moved > bound + room:
        raise AdapterRejected(
            f"the mean of the sum is {moved:.8g} away from the global adapter, "
            f"no vote may be farther than {bound:.8g}"
        )


def merge_sums(
    current: Adapter,
    sums: Sequence[Callable[[], Payload]],
    shares: Sequence[VoteShare],
    settings: AggregateSection,
) -> Adapter:
    """The adapter of all votes, from the sums of their regions.

    `shares` are those of all votes in the order of their clients' names. Without any it is
    `current` itself.
    """
    if not shares:
        return current

    def total_in(part: slice) -> Wide:
        planes: Planes = [np.zeros(part.stop - part.start)]
        for read in sums:
            add_planes(planes, [plane[part] for plane in parse_sum(read(), current.spec)])
        return rounded(planes)

    return along_the_mean(current, total_in, shares, settings)


def _exact_planes(
    current: Adapter, votes: Sequence[Vote], shares: Sequence[VoteShare], part: slice
) -> Planes:
    """The weighted sum of clipped votes without any rounding; their order does not matter."""
    planes: Planes = [np.zeros(part.stop - part.start)]
    here = current.vector[part]
    for vote, (_, scale, weight) in zip(votes, shares, strict=True):
        there = vote.load().vector[part]
        for inner in blocks(there.size, CACHED):
            add_exactly(planes, vote_term(here[inner], there[inner], scale, weight), inner)
    return planes


def _factor_norms(planes: Sequence[Wide], spec: AdapterSpec, weight: float) -> dict[str, float]:
    squares = {"A": 0.0, "B": 0.0}
    # Numbers that are not finite, or too large to be squared, are found by their result.
    with np.errstate(invalid="ignore", over="ignore"):
        for name, span in spec.slices.items():
            for part in blocks(span.stop - span.start, CACHED):
                inner = slice(span.start + part.start, span.start + part.stop)
                mean = sum(np.abs(plane[inner]) for plane in planes) / weight
                squares[factor_of(name)] += float(np.dot(mean, mean))
    return {factor: sqrt(square) for factor, square in squares.items()}
