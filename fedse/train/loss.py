"""What a fit minimises, by name: `sft`, those of installed packages, and any `module:name`.

This module and those of installed losses are imported where there is no torch, to check settings:
a loss imports heavy packages inside its methods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import BaseModel

from fedse import plugins
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.plugins import Variants
from fedse.types import Adapter

if TYPE_CHECKING:
    from fedse.train.batch import Lesson, Tokenized
    from fedse.train.optimise import Objective, Share


class FitContext(NamedTuple):
    """Where and how a fit computes."""

    place: TrainerSection
    share: "Share"
    """The part of the work that this process does, and how the parts are added up."""
    context: int
    """Tokens of an episode that count."""
    batch: int
    """Episodes per step."""
    beat: Callable[[], None]
    """To be called while something takes long."""
    start: str = ""
    """Digest of the adapter that the fit starts from."""


class Loss:
    """Maximum likelihood (paper); other losses inherit from it what they do not change.

    A subclass with an attribute `Options`, a pydantic model, has `train.options` checked by it.
    """

    Options: ClassVar[type[BaseModel] | None] = None
    needs: ClassVar[Mapping[str, object]] = {}
    """Other settings by dotted name, and the value that this loss depends on."""
    failures: float = 0.0
    """Failed episodes that a fit gets per lesson, at most; they follow the lessons, newest last."""
    origins: bool = False
    """It needs to know how an episode was played, so log-probabilities are recorded."""
    group: int = 1
    """Games that exploration plays of each task it chooses."""
    fresh: bool = False
    """It learns from the round's own games of tasks whose rewards differ, not from the buffer.
    In a fit that is independent of any round `sft` takes its place."""
    roles: bool = False
    """It can be minimised over the conversations of several roles: it changes neither what the
    steps are given nor the objective."""
    explored: bool = False
    """It needs what exploration brings: in rounds of the warm start `sft` takes its place."""

    def __init__(self, settings: TrainSection) -> None:
        self.settings = settings

    def enters(self, start: Adapter, course: Course) -> Adapter:
        """The adapter that is trained in the place of `start`."""
        return start

    def leaves(self, trained: Adapter, start: Adapter) -> Adapter:
        """The trained adapter in the layout of `start`, which was to be trained."""
        return trained

    def learns(self, tensor: str, course: Course) -> bool:
        """Whether the tensor of this name is trained in this fit."""
        return True

    def prepare(
        self, model: Any, lessons: "Sequence[Lesson]", fit: FitContext
    ) -> "Sequence[Tokenized]":
        """What the steps are given, in the order of `lessons`: here, the lessons themselves.

        The model is as the fit begins with it, so a loss can keep log-probabilities of a reference.
        """
        return lessons

    def objective(self) -> "Objective[Any] | None":
        """The loss of a batch, its gradient added up in the model; None = the likelihood."""
        return None


LOSSES: Mapping[str, Callable[[TrainSection], Loss]] = Variants(plugins.LOSSES, {"sft": Loss})


def loss_of(settings: TrainSection, *, warm: bool = False, alone: bool = False) -> Loss:
    """The loss of these settings: in a round of the warm start, in another one, or in a fit alone,
    which is independent of any round."""
    loss = LOSSES[settings.loss](settings)
    return Loss(settings) if (warm and loss.explored) or (alone and loss.fresh) else loss
