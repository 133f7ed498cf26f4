"""What a secure sum of updates comes to: the adapter at their mean."""

from fedse.aggregate.factors import learned_part
from fedse.drivers.round import OpenRound
from fedse.drivers.secure_merge import Moved
from fedse.secure_sum.combine import SumPlan
from fedse.secure_sum.fixed_point import Whole, decode, require_bounded_mean
from fedse.types import Adapter, AdapterSpec


def mean_of(r: OpenRound, total: Whole, plan: SumPlan, part: AdapterSpec) -> Moved:
    """The learned part at the mean of the updates, which must all be bounded."""
    form, count = plan.terms.form, len(plan.survivors)
    require_bounded_mean(total, form, count=count)
    start = learned_part(r.current, part).vector
    end = decode(total, start, form, count=count, step=r.run.config.aggregate.step)
    return Moved(Adapter(part, end))
