"""The sums of regions at the coordinator above: which can be used, and what they come to.

They are exact sums of adapters, or, where sums are secure, whole numbers modulo 2^32 on the grid
that all regions share. Either way the division into regions changes no bit.
"""

from collections.abc import Callable, Sequence

from fedse.aggregate.merge import WEIGHTS, VoteShare
from fedse.aggregate.region_report import RegionReport
from fedse.aggregate.regional import merge_sums, parse_sum, require_sound_sum
from fedse.aggregate.validate import Payload
from fedse.drivers.round import OpenRound
from fedse.types import Adapter


def require_usable(
    r: OpenRound, report: RegionReport, total: bytes, *, bound: float | None
) -> None:
    """The sum can be one of these votes, each within the bounds of the settings; or a rejection."""
    settings = r.run.config.aggregate
    if settings.secure:
        from fedse.secure_sum.fixed_point import FixedPoint, require_bounded_mean
        from fedse.secure_sum.messages import masked_from_bytes

        form = FixedPoint(settings.secure_bound, sum(settings.regions.values()))
        numbers = masked_from_bytes(total, r.run.spec.size)
        require_bounded_mean(numbers, form, count=len(report.votes))
        return
    weight = sum(WEIGHTS[settings.type](one.lessons) for one in report.votes)
    planes = parse_sum(total, r.run.spec)
    require_sound_sum(planes, r.current, weight=weight, bound=bound, settings=settings)


def adapter_of(
    r: OpenRound, reads: Sequence[Callable[[], Payload]], shares: Sequence[VoteShare]
) -> Adapter:
    """The adapter one step along the mean of all votes, whose sums are read."""
    settings = r.run.config.aggregate
    if not settings.secure or not shares:
        return merge_sums(r.current, reads, shares, settings)
    import numpy as np

    from fedse.secure_sum.fixed_point import FixedPoint, decode
    from fedse.secure_sum.messages import masked_from_bytes

    total = np.zeros(r.run.spec.size, dtype=np.uint32)
    for read in reads:
        np.add(total, masked_from_bytes(bytes(read()), total.size), out=total)
    form = FixedPoint(settings.secure_bound, sum(settings.regions.values()))
    step, count = settings.step, len(shares)
    return Adapter(r.run.spec, decode(total, r.current.vector, form, count=count, step=step))
