"""A client's own adapter beside the mean of all others, each counting half.

After FedALT (arXiv 2503.11880) with its fixed gate: the half of the others stays as it is while the
client's own half is trained on.
"""

import numpy as np

from fedse.aggregate.low_rank import Layer, adapter_of, layers_of
from fedse.aggregate.ranks import at_rank
from fedse.types import Adapter, AdapterSpec


def doubled(spec: AdapterSpec) -> AdapterSpec:
    """The layout of two adapters of `spec` side by side, scaled as each of them is."""
    return at_rank(spec, 2 * spec.rank)


def mean_of_others(mean: Adapter, own: Adapter, *, voters: int) -> Adapter:
    """The mean of the other votes, where `mean` is that of all `voters` and `own` is one of them.

    A lone voter has no others; they count as its own vote then.
    """
    if voters < 2:
        return own
    away = (mean.vector.astype(np.float64) - own.vector) / (voters - 1)
    return Adapter(mean.spec, (mean.vector + away).astype(np.float32))


def beside(others: Adapter, own: Adapter) -> Adapter:
    """The adapter of twice the rank whose products are the means of those of the two.

    The first half of its rank belongs to `others`, the second to `own`.
    """
    made = [
        Layer(stem, np.concatenate([b, own_b], axis=1) / 2, np.concatenate([a, own_a], axis=0))
        for (stem, b, a), (_, own_b, own_a) in zip(layers_of(others), layers_of(own), strict=True)
    ]
    return adapter_of(doubled(own.spec), made)
