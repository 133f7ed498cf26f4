"""The ways to merge, by name: ours and those of installed packages."""

from collections.abc import Mapping

from fedse import plugins
from fedse.aggregate.merge import Merge, mean, weighted
from fedse.aggregate.product import product
from fedse.plugins import Variants

AGGREGATES: Mapping[str, Merge] = Variants(
    plugins.AGGREGATES, {"mean": mean, "weighted": weighted, "product": product}
)
