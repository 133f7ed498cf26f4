"""What a fit of a round learns from: the buffer's lessons, failures, or the round's own games."""

from collections.abc import Sequence

from fedse.config.schema import Config
from fedse.store.buffer import Buffer
from fedse.train.loss import Loss, loss_of
from fedse.types import Task, Trajectory


def loss_in(config: Config, round: int) -> Loss:
    """The loss of a client's fit of `round`."""
    return loss_of(config.train, warm=round <= config.warmstart.rounds)


def lessons_for(
    buffer: Buffer, played: Sequence[Trajectory], config: Config, *, round: int
) -> Sequence[Trajectory]:
    """All that ever worked; for a loss that is `fresh`, this round's games that can be compared."""
    if loss_in(config, round).fresh:
        return [game for games in mixed_groups(played).values() for game in games]
    return buffer.lessons(config.run.name, round, config.buffer.history)


def groups_of(played: Sequence[Trajectory]) -> dict[Task, list[Trajectory]]:
    """The games of each task in their order, without those that broke or in which nothing was
    said."""
    groups: dict[Task, list[Trajectory]] = {}
    for episode in played:
        if episode.turns and episode.outcome != "broken":
            groups.setdefault(episode.task, []).append(episode)
    return groups


def mixed_groups(played: Sequence[Trajectory]) -> dict[Task, list[Trajectory]]:
    """The games of tasks whose rewards differ: only there one can be better than another."""
    groups = groups_of(played).items()
    return {task: games for task, games in groups if len({game.reward for game in games}) > 1}


def failures_for(buffer: Buffer, config: Config, *, round: int, lessons: int) -> list[Trajectory]:
    """Failed episodes for a fit with so many lessons; none unless the loss learns from failures.

    They are taken from the record of played games, so the buffer's lessons stay what they are.
    """
    most = int(loss_in(config, round).failures * lessons)
    if not most:
        return []
    return buffer.failures(config.run.name, round, config.buffer.history, most=most)
