"""What a buffer has on record of games, and which of its episodes a round learns from."""

from collections.abc import Mapping
from typing import NamedTuple

from fedse.config.schema import History
from fedse.types import Outcome, Split, Trajectory

# An episode that was met before is stored once, but this round has met it all the same.
SEEN = "content IN (SELECT content FROM sighting WHERE experiment = :experiment AND {})"
KEPT: Mapping[History, str] = {
    "all": "experiment <> :experiment OR round <= :round",
    "demonstrations": SEEN.format("round IN (0, :round)"),
    "round": SEEN.format("round = :round"),
}
"""Which episodes are learned from in a round; all but the first are ablations."""

TRAINING = "split IN ('train', 'train-personal')"
"""Games in tasks to learn from, whoever played them."""


class Played(NamedTuple):
    """One game on record: played in `round`, so by the adapter of the round before."""

    round: int
    split: str
    """The split of its task, or the record it is on, as `home` or `test-personal`."""
    position: int
    """Which game of that round and split; the held-out ones are the same in every round."""
    env: str
    task: str
    seed: int
    outcome: Outcome
    episode: Trajectory | None
    """All that was said in it, where that was kept."""


class Tally(NamedTuple):
    """How often a task was tried and succeeded; a broken game does not count as a try."""

    tries: int
    won: int


class RolloutPart(NamedTuple):
    """Some of the games of a round: those from `start` on that were played together."""

    experiment: str
    round: int
    record: str
    """Name under which they are on record, as `train` or `test`."""
    start: int
    identity: str
    """Digest of all that decides how these games go."""


def split_of(record: str) -> Split:
    """The split of the tasks of a record: only test games are in tasks that nobody has."""
    return "test" if record.startswith("test") else "train"
