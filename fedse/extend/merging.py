"""For ways to merge: what an aggregator is, and the parts that the built-in mean is made of."""

from fedse.aggregate.merge import (
    WEIGHTS,
    Merge,
    Vote,
    VoteShare,
    along_the_mean,
    clip_scales,
    lengths_of,
    mean,
    ordered_total,
    shares_of,
    update_norms,
    weighted,
)
from fedse.aggregate.norms import Wide, blocks, distance_by_blocks
from fedse.aggregate.variants import (
    Aggregated,
    Aggregator,
    MakeAggregator,
    State,
    WithOptions,
    stateless,
)
from fedse.config.aggregation import AggregateSection
from fedse.types import Adapter, AdapterSpec, TensorSpec

__all__ = [
    "WEIGHTS",
    "Adapter",
    "AdapterSpec",
    "AggregateSection",
    "Aggregated",
    "Aggregator",
    "MakeAggregator",
    "Merge",
    "State",
    "TensorSpec",
    "Vote",
    "VoteShare",
    "Wide",
    "WithOptions",
    "along_the_mean",
    "blocks",
    "clip_scales",
    "distance_by_blocks",
    "lengths_of",
    "mean",
    "ordered_total",
    "shares_of",
    "stateless",
    "update_norms",
    "weighted",
]
