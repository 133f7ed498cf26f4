"""What a fit learns from besides the lessons of the buffer: failures, if the loss asks for them."""

from fedse.config.schema import Config
from fedse.store.buffer import Buffer
from fedse.train.loss import loss_of
from fedse.types import Trajectory


def failures_for(buffer: Buffer, config: Config, *, round: int, lessons: int) -> list[Trajectory]:
    """Failed episodes for a fit with so many lessons; none unless the loss learns from failures.

    They are taken from the record of played games, so the buffer's lessons stay what they are.
    """
    loss = loss_of(config.train, warm=round <= config.warmstart.rounds)
    most = int(loss.failures * lessons)
    if not most:
        return []
    return buffer.failures(config.run.name, round, config.buffer.history, most=most)
