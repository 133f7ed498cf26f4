"""Which tensors of an adapter travel: all of them, or those that are learned and merged.

What travels is the same in every round and in both directions: a safetensors file whose header
follows from the agreed spec, so it is compared and not interpreted. A factor that is never learned
follows from the seed of the run, so every site and the server have it already. So does a local
block, which has other numbers at every site, as far as the federation is concerned. Of the blocks
that travel, a vote has those that it is on.
"""

from collections.abc import Collection

import numpy as np

from fedse.aggregate.validate import factor_of, load_checked, require_layout
from fedse.blocks import span_of, with_blocks
from fedse.config.schema import Config
from fedse.types import Adapter, AdapterSpec


def travelling_spec(spec: AdapterSpec, config: Config) -> AdapterSpec:
    """The layout of what travels: `spec` itself, or its tensors of B where only B is learned, and
    no local block."""
    part = narrowed(spec, config.roles.merged_blocks) if config.roles.local else spec
    if config.train.factors != "b":
        return part
    learned = [t for t in part.tensors if factor_of(t.name) == "B"]
    # Not copied: a copy of a model keeps the header and slices that were computed for it.
    return AdapterSpec.model_validate({**part.model_dump(), "tensors": learned})


def narrowed(spec: AdapterSpec, blocks: Collection[str]) -> AdapterSpec:
    """The layout of these blocks; `spec` itself if they are all, or none is named."""
    if not blocks or {*blocks} == {*spec.blocks}:
        return spec
    kept = [t for t in spec.tensors if t.name.partition("/")[0] in blocks]
    changed = {"tensors": kept, "blocks": tuple(sorted(blocks))}
    return AdapterSpec.model_validate({**spec.model_dump(), **changed})


def layout_of(vote: bytes, travelling: AdapterSpec) -> AdapterSpec:
    """The layout of the blocks that the vote names, for `require_layout` to compare it with."""
    if not travelling.blocks:
        return travelling
    end = min(8 + int.from_bytes(vote[:8], "little"), len(travelling.header))
    named = [block for block in travelling.blocks if f'"{block}/'.encode() in vote[8:end]]
    return narrowed(travelling, named)


def as_it_leaves(adapter: Adapter, current: Adapter, config: Config, client: str) -> Adapter:
    """What others learn of a trained adapter: the blocks without a vote are as in `current`."""
    if not adapter.spec.blocks:
        return adapter
    voted = config.roles.blocks_voted_on(config.client(client).roles)
    spans = {block: span_of(adapter.spec, block) for block in voted}
    return with_blocks(current, {block: adapter.vector[span] for block, span in spans.items()})


def vote_bytes(adapter: Adapter, config: Config, client: str) -> bytes:
    """What a site sends: the learned part of the blocks that it has a vote on."""
    voted = config.roles.blocks_voted_on(config.client(client).roles)
    return learned_part(adapter, narrowed(travelling_spec(adapter.spec, config), voted)).to_bytes()


def request_bytes(adapter: Adapter, config: Config) -> bytes:
    """What the server sends of the global adapter; what it leaves out is as the run began."""
    return learned_part(adapter, travelling_spec(adapter.spec, config)).to_bytes()


def learned_part(adapter: Adapter, part: AdapterSpec) -> Adapter:
    """The tensors of `adapter` that `part` has."""
    if part == adapter.spec:
        return adapter
    slices = adapter.spec.slices
    pieces = [adapter.vector[slices[tensor.name]] for tensor in part.tensors]
    return Adapter(part, np.concatenate(pieces))


def with_resting_factor(data: bytes, part: AdapterSpec, current: Adapter) -> bytes:
    """A reply as a whole adapter: what it lacks is as in `current`. Not of `part` = rejected.

    The numbers are not checked here. A reply that is whole already is given back as it is.
    """
    if part == current.spec:
        return data
    require_layout(data, part)
    learned = np.frombuffer(data, dtype="<f4", offset=len(part.header))
    vector = current.vector.copy()
    for name, place in part.slices.items():
        vector[current.spec.slices[name]] = learned[place]
    return Adapter(current.spec, vector).to_bytes()


def whole_adapter(learned: Adapter, current: Adapter) -> Adapter:
    """The learned tensors, and what they lack as in `current`; rejected unless all is finite."""
    data = with_resting_factor(learned.to_bytes(), learned.spec, current)
    return load_checked(lambda: data, current.spec)
