"""The sums of regions at the coordinator above: which can be used, and what they come to.

They are exact sums of adapters, or, where sums are secure, whole numbers modulo 2^32 on the grid
that all regions share. Either way the division into regions changes no bit.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedse.aggregate.factors import learned_part, travelling_spec, whole_adapter
from fedse.aggregate.merge import WEIGHTS, VoteShare
from fedse.aggregate.region_report import RegionReport
from fedse.aggregate.regional import (
    merge_sums,
    parse_sum,
    require_sound_sum,
    sum_to_bytes,
    with_resting_planes,
)
from fedse.aggregate.validate import Payload
from fedse.config.aggregation import AggregateSection
from fedse.drivers.round import OpenRound
from fedse.types import Adapter

if TYPE_CHECKING:
    from fedse.secure_sum.fixed_point import FixedPoint


def usable_sum(r: OpenRound, report: RegionReport, total: bytes, *, bound: float | None) -> bytes:
    """The sum of whole adapters, or of learned parts in secret; or a rejection.

    It can be one of these votes, each within the bounds of the settings.
    """
    settings, part = r.run.config.aggregate, travelling_spec(r.run.spec, r.run.config)
    if settings.secure:
        from fedse.secure_sum.fixed_point import require_bounded_mean
        from fedse.secure_sum.messages import masked_from_bytes

        numbers = masked_from_bytes(total, part.size)
        require_bounded_mean(numbers, _grid(settings), count=len(report.votes))
        return total
    weight = sum(WEIGHTS[settings.type](one.lessons) for one in report.votes)
    planes = with_resting_planes(parse_sum(total, part), part, r.current, weight=weight)
    require_sound_sum(planes, r.current, weight=weight, bound=bound, settings=settings)
    return sum_to_bytes(planes)


def adapter_of(
    r: OpenRound, reads: Sequence[Callable[[], Payload]], shares: Sequence[VoteShare]
) -> Adapter:
    """The adapter one step along the mean of all votes, whose sums are read."""
    settings = r.run.config.aggregate
    if not settings.secure or not shares:
        return merge_sums(r.current, reads, shares, settings)
    from fedse.secure_sum.fixed_point import decode
    from fedse.secure_sum.messages import masked_from_bytes

    part = travelling_spec(r.run.spec, r.run.config)
    total = np.zeros(part.size, dtype=np.uint32)
    for read in reads:
        np.add(total, masked_from_bytes(bytes(read()), total.size), out=total)
    start, step, count = learned_part(r.current, part).vector, settings.step, len(shares)
    end = decode(total, start, _grid(settings), count=count, step=step)
    return whole_adapter(Adapter(part, end), r.current)


def _grid(settings: AggregateSection) -> "FixedPoint":
    """That of all regions together, as their sites know it by `secure_members`."""
    from fedse.secure_sum.fixed_point import FixedPoint

    return FixedPoint(settings.secure_bound, sum(settings.regions.values()))
