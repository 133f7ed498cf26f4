"""Which tensors of an adapter travel: all of them, or those of the one factor that is learned.

What travels is the same in every round and in both directions: a safetensors file whose header
follows from the agreed spec, so it is compared and not interpreted. A factor that is never learned
follows from the seed of the run, so every site and the server have it already.
"""

import numpy as np

from fedse.aggregate.validate import factor_of, load_checked, require_layout
from fedse.config.schema import Config
from fedse.types import Adapter, AdapterSpec


def travelling_spec(spec: AdapterSpec, config: Config) -> AdapterSpec:
    """The layout of what travels: `spec` itself, or its tensors of B where only B is learned."""
    if config.train.factors != "b":
        return spec
    learned = [t for t in spec.tensors if factor_of(t.name) == "B"]
    # Not copied: a copy of a model keeps the header and slices that were computed for it.
    return AdapterSpec.model_validate({**spec.model_dump(), "tensors": learned})


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
