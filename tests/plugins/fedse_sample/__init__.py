"""A third party's package: one environment, one way to merge, one rule for what is learned from."""

from collections.abc import Sequence

import fedse
from fedse.testing import CoinWorld


class SampleCoin(CoinWorld):
    """The coin world under another name."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.name = "sample-coin"


def first_voter(
    current: fedse.Adapter, votes: Sequence[fedse.Vote], *, settings: fedse.AggregateSection
) -> fedse.Adapter:
    """The adapter of the voter whose name comes first; `current` without a vote."""
    if not votes:
        return current
    return min(votes, key=lambda vote: vote.client).load()


def short_successes(played: Sequence[fedse.Trajectory]) -> tuple[fedse.Trajectory, ...]:
    """Successes of at most two turns."""
    return tuple(episode for episode in played if episode.success and len(episode.turns) <= 2)


def first_wins(
    played: Sequence[fedse.Trajectory], *, record: fedse.OwnRecord
) -> tuple[fedse.Trajectory, ...]:
    """The first success of each task there ever was."""
    found: dict[fedse.Task, fedse.Trajectory] = {}
    for episode in played:
        if episode.success and episode.task not in record.kept:
            found.setdefault(episode.task, episode)
    return tuple(found.values())
