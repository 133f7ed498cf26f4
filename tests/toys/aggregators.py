"""Aggregators that remember, for laws about what a run stores: one and two vectors."""

from collections.abc import Sequence

import numpy as np

from fedse.aggregate.merge import Vote, mean
from fedse.aggregate.variants import Aggregated, Aggregator, State
from fedse.config.aggregation import AggregateSection
from fedse.types import Adapter, AdapterSpec


def remembering(settings: AggregateSection, *, count: int) -> Aggregator:
    """Goes to the mean and on by half of what it remembers: sums of updates that fade."""

    def init(spec: AdapterSpec) -> State:
        return (Adapter(spec, np.zeros(spec.size, dtype=np.float32)),) * count

    def apply(current: Adapter, votes: Sequence[Vote], state: State) -> Aggregated:
        if not votes:
            return Aggregated(current, state)
        merged = mean(current, votes, settings=settings)
        update = merged.vector - current.vector
        kept = [place * update + memory.vector / 2 for place, memory in enumerate(state, start=1)]
        moved = merged.vector + sum(kept) / 2
        vectors = [vector.astype(np.float32) for vector in (moved, *kept)]
        adapter, *memories = (Adapter(current.spec, vector) for vector in vectors)
        return Aggregated(adapter, tuple(memories))

    return Aggregator(init, apply)


def one(settings: AggregateSection) -> Aggregator:
    return remembering(settings, count=1)


def two(settings: AggregateSection) -> Aggregator:
    return remembering(settings, count=2)


ONE, TWO = f"{__name__}:one", f"{__name__}:two"
