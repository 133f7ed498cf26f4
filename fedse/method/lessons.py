"""What a fit learns from besides the lessons of the buffer: failures, if the loss can use them."""

from fedse.config.schema import Config
from fedse.store.buffer import Buffer
from fedse.types import Trajectory


def failures_for(buffer: Buffer, config: Config, *, round: int, lessons: int) -> list[Trajectory]:
    """Failed episodes for a fit with so many lessons; none unless the loss learns from failures.

    They are taken from the record of played games, so the buffer's lessons stay what they are.
    """
    train = config.train_in(round)
    if train.loss == "sft":
        return []
    most = int(train.failures * lessons)
    return buffer.failures(config.run.name, round, config.buffer.history, most=most)
