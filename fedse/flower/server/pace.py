"""How long a question waits for its sites, by how long they took for the last one of its kind."""

from collections.abc import Collection, Mapping
from math import inf
from statistics import median_high

from fedse.config.aggregation import AggregateSection
from fedse.protocol import Kind

PACED: frozenset[Kind] = frozenset({"train", "validate"})
"""What every round asks and what takes as long as games and training do."""
LEAST_SECONDS = 10.0
"""A shorter time would depend on the line and on how often replies are looked for."""


class Pace:
    """Seconds that sites took to answer the last question of a kind.

    A site that did not answer counts as infinitely slow. So a time that was too short for half of
    the sites does not become shorter still: the next round waits for `aggregate.deadline`.
    """

    def __init__(self, limits: AggregateSection) -> None:
        self._limits = limits
        self._times: dict[Kind, list[float]] = {}

    def note(self, kind: Kind, asked: Collection[str], took: Mapping[str, float]) -> None:
        """All of `asked` were asked, and `took` has the seconds of those who answered."""
        self._times[kind] = [took.get(node, inf) for node in asked]

    def deadline(self, kind: Kind) -> float:
        """Seconds in which the next question of this kind is to be answered."""
        limit, times = self._limits.deadline, self._times.get(kind)
        if not self._limits.pace or kind not in PACED or not times:
            return limit
        return min(limit, max(LEAST_SECONDS, self._limits.pace * median_high(times)))
