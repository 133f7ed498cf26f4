"""How each vote stands to the others: whom the gate asks about.

A member's agreement is the median of the cosines between its update and every other one, the higher
one of two. A few that agree among themselves only do not stand in the middle of all, however long
their updates are. Where there are many members, those on a panel stand for all.
"""

from collections.abc import Collection, Mapping
from itertools import combinations
from statistics import median, median_high
from typing import NamedTuple

from fedse.aggregate.drift import Load
from fedse.aggregate.norms import distance, update_product
from fedse.types import Adapter

AGAINST = -0.05
"""A smaller agreement is opposition. Cosines of unrelated updates of n numbers are about
1 / sqrt(n) away from 0, which is less than 0.01 for any real adapter."""


class Stance(NamedTuple):
    """One vote beside the others."""

    agreement: float
    """From -1 to 1; 0 for one that changed nothing, or where there is no other."""
    length: float
    """Of its update."""


def stances_of(
    current: Adapter,
    votes: Mapping[str, Load],
    panel: Collection[str],
    blocks: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Stance]:
    """How every voter stands to the others on the panel that voted on some of the same blocks."""
    updates = {client: load().vector for client, load in votes.items()}
    start = current.vector
    lengths = {client: distance(start, vote) for client, vote in updates.items()}
    cosines: dict[str, list[float]] = {client: [] for client in updates}
    for one, other in combinations(updates, 2):
        if one not in panel and other not in panel:
            continue
        if blocks and not {*blocks.get(one, ())} & {*blocks.get(other, ())}:
            continue
        both = lengths[one] * lengths[other]
        cosine = update_product(start, updates[one], updates[other]) / both if both else 0.0
        if other in panel:
            cosines[one].append(cosine)
        if one in panel:
            cosines[other].append(cosine)
    return {
        client: Stance(median_high(cosines[client] or [0.0]), lengths[client]) for client in updates
    }


def least_agreeing(
    stances: Mapping[str, Stance], most: int, *, suspected: Mapping[str, int]
) -> list[frozenset[str]]:
    """The one voter that agrees least, the two that do, and so on up to `most`, never everybody.

    Who was `suspected` before, so many times, comes first.
    """
    ranked = sorted(stances, key=lambda c: (-suspected.get(c, 0), stances[c].agreement, c))
    return [frozenset(ranked[:count]) for count in range(1, min(most, len(ranked) - 1) + 1)]


def opposed(stances: Mapping[str, Stance]) -> frozenset[str]:
    """Those who move against most of the others."""
    return frozenset(client for client, one in stances.items() if one.agreement < AGAINST)


def far_away(stances: Mapping[str, Stance], times: float) -> frozenset[str]:
    """Those whose update is more than `times` as long as the median one."""
    middle = median(one.length for one in stances.values()) if stances else 0.0
    return frozenset(client for client, one in stances.items() if one.length > times * middle)
