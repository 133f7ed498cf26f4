"""An adapter of several blocks is merged block by block, each from the votes that are on it.

A block is an adapter of its own to whatever merges it: what is clipped or remembered there is that
of the block. A block without a vote stays as it is.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedse.aggregate.merge import Vote
from fedse.aggregate.parts import BlockPart, parts_of
from fedse.aggregate.variants import Aggregated, Aggregator, State
from fedse.types import Adapter, AdapterSpec


def by_block(whole: Aggregator) -> Aggregator:
    """Merges each block as `whole` merges an adapter; one without blocks is merged as it is."""
    return Aggregator(partial(_begun, whole), partial(_merged, whole))


def _begun(whole: Aggregator, spec: AdapterSpec) -> State:
    if not spec.blocks:
        return whole.init(spec)
    parts = parts_of(spec)
    return _joined(spec, parts, [whole.init(part.spec) for part in parts])


def _merged(whole: Aggregator, current: Adapter, votes: Sequence[Vote], state: State) -> Aggregated:
    spec = current.spec
    if not spec.blocks:
        return whole.apply(current, votes, state)
    parts, merged, remembered = parts_of(spec), np.array(current.vector), list[State]()
    for part in parts:
        kept = tuple(part.of(one) for one in state)
        if voted := _votes_on(part, votes):
            after = whole.apply(part.of(current), voted, kept)
            merged[part.span], kept = after.adapter.vector, after.state
        remembered.append(kept)
    return Aggregated(Adapter(spec, merged), _joined(spec, parts, remembered))


def _votes_on(part: BlockPart, votes: Sequence[Vote]) -> list[Vote]:
    """The votes that are on this block, each with nothing but this block."""
    return [
        # The length that was measured is that of all blocks together.
        vote._replace(load=partial(part.read, vote.load), length=None, blocks=())
        for vote in votes
        if part.is_in(vote.blocks)
    ]


def _joined(spec: AdapterSpec, parts: Sequence[BlockPart], states: Sequence[State]) -> State:
    """What is remembered of each block, as adapters of all blocks."""
    joined = [np.zeros(spec.size, dtype=np.float32) for _ in states[0]]
    for part, state in zip(parts, states, strict=True):
        for vector, one in zip(joined, state, strict=True):
            vector[part.span] = one.vector
    return tuple(Adapter(spec, vector) for vector in joined)
