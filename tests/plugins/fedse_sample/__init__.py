"""A third party's package: one environment, two ways to merge, two select rules, one loss."""

from collections.abc import Sequence

from pydantic import BaseModel

import fedse
from fedse.extend.learning import Loss, TrainSection
from fedse.extend.merging import Aggregator, WithOptions, stateless
from fedse.testing import CoinWorld


class SampleCoin(CoinWorld):
    """The coin world under another name."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.name = "sample-coin"


@stateless
def first_voter(
    current: fedse.Adapter, votes: Sequence[fedse.Vote], *, settings: fedse.AggregateSection
) -> fedse.Adapter:
    """The adapter of the voter whose name comes first; `current` without a vote."""
    if not votes:
        return current
    return min(votes, key=lambda vote: vote.client).load()


class NthOptions(BaseModel, extra="forbid"):
    """`aggregate.options` of the n-th voter."""

    n: int = 1


def nth_voter(settings: fedse.AggregateSection, options: NthOptions) -> Aggregator:
    """The adapter of the n-th voter by name."""

    def merge(
        current: fedse.Adapter, votes: Sequence[fedse.Vote], *, settings: fedse.AggregateSection
    ) -> fedse.Adapter:
        return sorted(votes, key=lambda vote: vote.client)[options.n - 1].load()

    return stateless(merge)(settings)


NTH = WithOptions(nth_voter, NthOptions, {"train.factors": "both"})


class Patient(Loss):
    """Maximum likelihood that asks for failures too."""

    class Options(BaseModel, extra="forbid"):
        """`train.options`."""

        failures: float = 2.0

    def __init__(self, settings: TrainSection) -> None:
        super().__init__(settings)
        self.failures = self.Options.model_validate(settings.options).failures


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
