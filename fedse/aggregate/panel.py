"""Who judges for all: of many members, as many as can be asked about every trial of a round.

Without it a gate costs the square of the members: each is tried to be left out, and each trial is
played by all. A panel has more than four members for each liar, who may all be in it: the trimmed
mean of its changes in success lies between those of honest members.
"""

from collections.abc import Collection

import numpy as np

PANEL = 32
"""Members on a panel, unless that many liars need more."""


def size_of_panel(liars: int) -> int:
    """How many members judge, and are tried to be left out, if there are more."""
    return max(PANEL, 4 * liars + 1)


def panel_of(members: Collection[str], *, liars: int, seed: int) -> frozenset[str]:
    """The members that judge; all, if there are no more than a panel has."""
    ordered, size = sorted(members), size_of_panel(liars)
    if len(ordered) <= size:
        return frozenset(ordered)
    places = np.random.default_rng(seed).choice(len(ordered), size, replace=False)
    return frozenset(ordered[place] for place in places)
