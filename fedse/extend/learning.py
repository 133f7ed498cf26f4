"""For losses, without torch: what a loss is, and what it knows of the fit it is used in."""

from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import TrainError
from fedse.train.loss import FitContext, Loss
from fedse.types import Adapter

__all__ = [
    "Adapter",
    "Course",
    "FitContext",
    "Loss",
    "TrainError",
    "TrainSection",
    "TrainerSection",
]
