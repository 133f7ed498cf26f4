"""Adapters of one federation at different ranks: cut down at a small site, filled up with zeros.

The wire knows the agreed rank only. A row of A and a column of B that are zero add nothing to the
product B A, so an adapter of a lower rank is one of the agreed rank (HetLoRA, arXiv 2401.06432).
"""

import numpy as np

from fedse.aggregate.low_rank import Layer, adapter_of, layers_of, nearest_product
from fedse.types import Adapter, AdapterSpec, TensorSpec


def at_rank(spec: AdapterSpec, rank: int | None) -> AdapterSpec:
    """`spec` for adapters of `rank` that are scaled as its own are; unset or equal = `spec`."""
    if rank is None or rank == spec.rank:
        return spec
    tensors = tuple(
        TensorSpec(name=t.name, shape=_shape_at(t.name, t.shape, rank)) for t in spec.tensors
    )
    changed = {"rank": rank, "alpha": spec.scaling * rank, "tensors": tensors}
    return AdapterSpec.model_validate({**spec.model_dump(), **changed})


def cut_down(adapter: Adapter, spec: AdapterSpec) -> Adapter:
    """The adapter of the lower rank of `spec` whose products are nearest to those of `adapter`."""
    if adapter.spec == spec:
        return adapter
    made = []
    for stem, b, a in layers_of(adapter):
        # The first rows only say how long those of the result are to be, and which way to turn.
        near_b, near_a = nearest_product([b], [a], rank=spec.rank, like=a[: spec.rank])
        made.append(Layer(stem, near_b, near_a))
    return adapter_of(spec, made)


def filled_up(adapter: Adapter, spec: AdapterSpec) -> Adapter:
    """The same products in the higher rank of `spec`: further rows of A and columns of B are 0."""
    if adapter.spec == spec:
        return adapter
    missing = spec.rank - adapter.spec.rank
    made = [
        Layer(stem, np.pad(b, ((0, 0), (0, missing))), np.pad(a, ((0, missing), (0, 0))))
        for stem, b, a in layers_of(adapter)
    ]
    return adapter_of(spec, made)


def _shape_at(name: str, shape: tuple[int, ...], rank: int) -> tuple[int, int]:
    rows, columns = shape
    return (rank, columns) if ".lora_A." in name else (rows, rank)
