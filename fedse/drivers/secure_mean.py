"""The stage of a secure sum of updates: the server moves the adapter to their mean."""

from dataclasses import replace
from functools import cache

from fedse.aggregate.factors import learned_part
from fedse.drivers.round import OpenRound
from fedse.drivers.secure_merge import Moved, SecureRound
from fedse.secure_sum.combine import SumPlan
from fedse.secure_sum.fixed_point import Whole, decode, require_bounded_mean
from fedse.types import Adapter, AdapterSpec


def merge_in_secret(r: OpenRound) -> OpenRound:
    """The mean of the votes can be had, with all of them only; no single vote is known."""
    summed = cache(SecureRound(r, mean_of).merge)
    # The settings refuse a gate that would leave votes out.
    return replace(r, merge=lambda out: summed())


def mean_of(r: OpenRound, total: Whole, plan: SumPlan, part: AdapterSpec) -> Moved:
    """The learned part at the mean of the updates, which must all be bounded."""
    form, count = plan.terms.form, len(plan.survivors)
    require_bounded_mean(total, form, count=count)
    start = learned_part(r.current, part).vector
    end = decode(total, start, form, count=count, step=r.run.config.aggregate.step)
    return Moved(Adapter(part, end))
