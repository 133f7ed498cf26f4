"""When a client's actions have lost their variety: one rule, stated once, applied everywhere."""

from collections.abc import Sequence
from typing import NamedTuple

from fedse.committed import RoundResult

RULE = (
    "A client is marked when the entropy of its actions is below half of what it was in the "
    "client's first round and, in the same round, a smaller share of its episodes is distinct "
    "than in that first round; the mark stays only while both hold."
)


class Variety(NamedTuple):
    """How varied one client's episodes of one round were."""

    round: int
    entropy: float
    """Nats."""
    distinct: float
    """Share of episodes that repeat no other one."""


class Collapse(NamedTuple):
    client: str
    since: int
    """The round since which the rule has held without a break."""
    first: Variety
    last: Variety


def collapses(results: Sequence[RoundResult]) -> list[Collapse]:
    """The clients for which RULE holds in the last round they played, in order of name."""
    clients = sorted({client for result in results for client in result.stats})
    collapsed = []
    for client in clients:
        series = variety_of(client, results)
        since = collapsed_since(series)
        if since is not None:
            collapsed.append(Collapse(client, since, series[0], series[-1]))
    return collapsed


def variety_of(client: str, results: Sequence[RoundResult]) -> list[Variety]:
    """One entry per round in which the client played."""
    stats = [(result.index, result.stats.get(client)) for result in results]
    return [Variety(i, s.entropy, s.distinct) for i, s in stats if s is not None and s.played]


def collapsed_since(series: Sequence[Variety]) -> int | None:
    """The round since which RULE has held up to the last one; None if it does not hold there."""
    since = None
    for entry in reversed(series[1:]):
        first = series[0]
        if not (entry.entropy < first.entropy / 2 and entry.distinct < first.distinct):
            break
        since = entry.round
    return since
