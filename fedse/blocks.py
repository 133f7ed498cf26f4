"""The parts of an adapter in which roles act: each is laid out like an adapter of its own."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fedse.types import Adapter, AdapterSpec, FloatVector, TensorSpec


def in_blocks(spec: AdapterSpec, blocks: Sequence[str]) -> AdapterSpec:
    """The spec with each of these blocks laid out like `spec`; itself if there are none."""
    if not blocks:
        return spec
    tensors = [
        TensorSpec(name=f"{block}/{tensor.name}", shape=tensor.shape)
        for block in blocks
        for tensor in spec.tensors
    ]
    ordered = tuple(sorted(tensors, key=_name))
    return _changed(spec, {"blocks": tuple(sorted(blocks)), "tensors": ordered})


def _name(tensor: TensorSpec) -> str:
    return tensor.name


def bare_name(spec: AdapterSpec, tensor: str) -> str:
    """The tensor's name without its block."""
    return tensor.partition("/")[2] if spec.blocks else tensor


@lru_cache(maxsize=32)
def bare_spec(spec: AdapterSpec) -> AdapterSpec:
    """The spec that one block follows by itself."""
    if not spec.blocks:
        return spec
    first = f"{spec.blocks[0]}/"
    tensors = [
        TensorSpec(name=tensor.name.removeprefix(first), shape=tensor.shape)
        for tensor in spec.tensors
        if tensor.name.startswith(first)
    ]
    return _changed(spec, {"blocks": (), "tensors": tensors})


def _changed(spec: AdapterSpec, changes: Mapping[str, Any]) -> AdapterSpec:
    # Not model_copy: it would copy what the spec has worked out about its own tensors.
    return AdapterSpec.model_validate({**spec.model_dump(), **changes})


def span_of(spec: AdapterSpec, block: str) -> slice:
    """Where the block lies in the vector."""
    if not spec.blocks:
        return slice(0, spec.size)
    places = [spec.slices[t.name] for t in spec.tensors if t.name.startswith(f"{block}/")]
    return slice(places[0].start, places[-1].stop)


def block_adapter(adapter: Adapter, block: str) -> Adapter:
    """One block as an adapter of its own, for whatever knows nothing of roles."""
    if not adapter.spec.blocks:
        return adapter
    part = adapter.vector[span_of(adapter.spec, block)].copy()
    return Adapter(bare_spec(adapter.spec), part)


def with_blocks(adapter: Adapter, parts: Mapping[str, FloatVector]) -> Adapter:
    """The adapter with these blocks replaced."""
    vector = np.array(adapter.vector)
    for block, part in parts.items():
        vector[span_of(adapter.spec, block)] = part
    return Adapter(adapter.spec, vector)
