"""The exact mean: of the products B A that the model sees, not of their factors.

mean(B) mean(A) differs from mean(B A) by the covariance of the factors. The mean of K products has
up to K times their rank, so it is cut back to the agreed rank (FlexLoRA, arXiv 2402.11505). All
votes are in memory at once.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.merging import (
    Adapter,
    AggregateSection,
    Aggregator,
    Vote,
    WithOptions,
    clip_scales,
    stateless,
    update_norms,
)
from fedse_variants.fedexp import Spread, step_length
from fedse_variants.low_rank import Layer, adapter_of, layers_of, nearest_product, product_square


class ProductOptions(BaseModel):
    """`aggregate.options` of the mean of products."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: Literal["fixed", "fedexp"] = "fixed"
    """How far to go: `aggregate.step`, or as far as FedExP finds from the products' updates."""
    most: Annotated[float, Field(gt=0)] = 10.0
    """The longest step that FedExP may find."""


def product(
    current: Adapter,
    votes: Sequence[Vote],
    *,
    settings: AggregateSection,
    options: ProductOptions = ProductOptions(),  # noqa: B008  a value that nobody changes
) -> Adapter:
    """The adapter whose products are closest to the mean of the votes' products.

    Without votes it is `current` itself; where all votes are equal it is theirs, bit for bit. The
    step is one of the products; clipping is of the factors, as for the mean.
    """
    if not votes:
        return current
    ordered = sorted(votes, key=lambda vote: vote.client)
    scales = clip_scales(update_norms(current, ordered, settings), settings)
    adapters = [_shortened(current, v.load(), s) for v, s in zip(ordered, scales, strict=True)]
    step = settings.step
    if options.step == "fedexp":
        step = step_length(_spread(current, adapters), least=step, most=options.most)
    first = adapters[0]
    if step == 1.0 and all(np.array_equal(first.vector, other.vector) for other in adapters):
        return first
    return adapter_of(current.spec, _mean_layers(current, adapters, step))


def _mean_layers(current: Adapter, adapters: Sequence[Adapter], step: float) -> Iterator[Layer]:
    """Each layer's product is P + step * (mean of the votes' products - P), cut to the rank."""
    weights = [1.0 - step, *[step / len(adapters)] * len(adapters)]
    for same in zip(*map(layers_of, (current, *adapters)), strict=True):
        here = same[0]
        terms = [(w * layer.b, layer.a) for w, layer in zip(weights, same, strict=True) if w]
        left, right = zip(*terms, strict=True)
        b, a = nearest_product(left, right, rank=current.spec.rank, like=here.a)
        yield Layer(here.stem, b, a)


def _spread(current: Adapter, adapters: Sequence[Adapter]) -> Spread:
    """How far the products' updates point apart, over all layers."""
    mean_square, square_of_mean = 0.0, 0.0
    for here, *there in zip(*map(layers_of, (current, *adapters)), strict=True):
        moves = [product_square([one.b, -here.b], [one.a, here.a]) for one in there]
        mean_square += sum(moves) / len(there)
        shares = [one.b / len(there) for one in there]
        square_of_mean += product_square([*shares, -here.b], [*(one.a for one in there), here.a])
    return Spread(max(mean_square, 0.0), max(square_of_mean, 0.0))


def _shortened(current: Adapter, vote: Adapter, scale: float) -> Adapter:
    """The adapter at `scale` of the way from `current` to `vote`."""
    if scale == 1.0:
        return vote
    here = current.vector.astype(np.float64)
    return Adapter(current.spec, (here + scale * (vote.vector - here)).astype(np.float32))


def _product(settings: AggregateSection, options: ProductOptions) -> Aggregator:
    return stateless(partial(product, options=options))(settings)


# With B alone the mean of the factors is that of the products, and A may not move.
PRODUCT = WithOptions(_product, ProductOptions, {"train.factors": "both"})
"""`aggregate.type = "product"`."""
