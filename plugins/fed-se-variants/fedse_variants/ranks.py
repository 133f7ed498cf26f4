"""Adapters of one federation at different ranks: cut down at a small site, filled up with zeros.

The wire knows the agreed rank only. A row of A and a column of B that are zero add nothing to the
product B A, so an adapter of a lower rank is one of the agreed rank (HetLoRA, arXiv 2401.06432).
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.learning import Course, Loss, TrainSection
from fedse.extend.merging import Adapter, AdapterSpec, TensorSpec
from fedse_variants.low_rank import Layer, adapter_of, layers_of, nearest_product


class RanksOptions(BaseModel):
    """`train.options` of ranks per site."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ranks: Mapping[str, Annotated[int, Field(gt=0)]]
    """Site -> the LoRA rank it trains at, below model.rank; sites that are not named train at
    model.rank. A higher rank counts as model.rank."""


class Ranks(Loss):
    """`train.loss = "ranks"`: maximum likelihood, at a site's own rank; saves memory there."""

    Options = RanksOptions
    roles = True
    needs: ClassVar[Mapping[str, object]] = {"aggregate.type": "product"}

    def __init__(self, settings: TrainSection) -> None:
        super().__init__(settings)
        self.ranks = RanksOptions.model_validate(settings.options).ranks

    def enters(self, start: Adapter, course: Course) -> Adapter:
        """The adapter of the site's own rank that is nearest to `start`."""
        rank = min(self.ranks.get(course.site, start.spec.rank), start.spec.rank)
        return cut_down(start, at_rank(start.spec, rank))

    def leaves(self, trained: Adapter, start: Adapter) -> Adapter:
        """The trained adapter at the agreed rank, filled up with zeros."""
        return filled_up(trained, start.spec)


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
