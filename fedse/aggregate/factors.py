"""Which of the two factors is learned in a round, and therefore travels.

A reply holds the tensors of the learned factor only: a safetensors file whose header follows from
the agreed spec and the round, so it is compared and not interpreted, as for a whole adapter. The
server has the other factor, which nobody may change. A request holds both, unless one of them is
never learned: that one follows from the seed of the run, so every site has it.
"""

import numpy as np

from fedse.aggregate.validate import factor_of, require_layout
from fedse.config.schema import Config
from fedse.types import Adapter, AdapterSpec


def reply_spec(spec: AdapterSpec, config: Config, *, round: int) -> AdapterSpec:
    """The layout of a reply in `round`: `spec` itself, or its tensors of the learned factor."""
    factors = config.train_in(round).factors
    if factors == "both":
        return spec
    learned = [t for t in spec.tensors if factor_of(t.name) == factors.upper()]
    # Not copied: a copy of a model keeps the header and slices that were computed for it.
    return AdapterSpec.model_validate({**spec.model_dump(), "tensors": learned})


def largest_reply(spec: AdapterSpec, config: Config) -> int:
    """Bytes of the adapter in a reply, of the larger one where two factors take turns."""
    return max(reply_spec(spec, config, round=index).nbytes for index in (1, 2))


def travelling_spec(spec: AdapterSpec, config: Config) -> AdapterSpec:
    """The tensors that change in one round or another; no others leave the server or a site."""
    turns = config.train.factors == "alternate"
    return spec if turns else reply_spec(spec, config, round=1)


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
