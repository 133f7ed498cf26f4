"""What a secure sum comes to: the adapter at the mean of updates, or moved against gradients.

The sum of a private step has the noise already, so whatever the server does with it tells no more.
What is kept of the direction for momentum is stored with the round, like the moments of any other
way to merge.
"""

from collections import Counter
from itertools import chain

import numpy as np

from fedse.aggregate.factors import learned_part, whole_adapter
from fedse.drivers.round import OpenRound
from fedse.drivers.secure_merge import Moved
from fedse.secure_sum.combine import SumPlan
from fedse.secure_sum.fixed_point import Whole, decode, require_bounded_mean
from fedse.secure_sum.private_step import require_bounded_sum, step_form, take_step
from fedse.types import Adapter, AdapterSpec


def mean_of(r: OpenRound, total: Whole, plan: SumPlan, part: AdapterSpec) -> Moved:
    """The learned part at the mean of the updates, which must all be bounded.

    A block is at the mean of those that have an update of it, or where it was if they are too few.
    """
    form, step = plan.terms.form, r.run.config.aggregate.step
    end = learned_part(r.current, part).vector.copy()
    counts = Counter(chain.from_iterable(plan.blocks.values()))
    whole = {"": slice(0, end.size)} if not plan.terms.blocks else {}
    for block, span in (plan.terms.spans or whole).items():
        if count := counts[block] if block else len(plan.survivors):
            require_bounded_mean(total[span], form, count=count)
            end[span] = decode(total[span], end[span], form, count=count, step=step)
    return Moved(Adapter(part, end))


def stepped(r: OpenRound, total: Whole, plan: SumPlan, part: AdapterSpec) -> Moved:
    """The learned part one step on."""
    config, spec = r.run.config, r.run.spec
    form = step_form(config)
    require_bounded_sum(total, form)
    still = Adapter(spec, np.zeros(spec.size, dtype=np.float32))
    (before,) = r.remembered or (still,)
    start, velocity = (learned_part(one, part).vector for one in (r.current, before))
    found = take_step(start, velocity, total, form, config.step)
    if not config.step.momentum:
        return Moved(Adapter(part, found.end))
    return Moved(Adapter(part, found.end), (whole_adapter(Adapter(part, found.velocity), still),))
