"""`train.loss = "dpo"`: its settings, and what it asks of a fit; the loss is in dpo_loss.py."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.learning import FitContext, Loss, TrainSection

if TYPE_CHECKING:
    from fedse.extend.losses import Lesson, Objective
    from fedse_variants.dpo_loss import Paired

Weight = Annotated[float, Field(ge=0)]


class DpoOptions(BaseModel):
    """`train.options` of DPO."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Annotated[int, Field(ge=1)] = 4
    """Games of each task that is played in a round; with more of them, more tasks have a pair."""
    failures: Weight = 1.0
    """Failed episodes per lesson at most, the newest ones."""
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How soon the log-probabilities of a pair are far enough apart."""
    sft_weight: Weight = 1.0
    """Weight of the likelihood of the successes beside it."""
    reference: Literal["start", "base"] = "start"
    """Changes are counted from the adapter the round starts from, or from the base model."""


class Dpo(Loss):
    """A success of a task rather than a failure of it, with a likelihood term."""

    Options = DpoOptions
    needs: ClassVar[Mapping[str, object]] = {"buffer.keep_played": True}
    # There is no failure to learn from before the first exploration.
    explored = True
    # A pair is of one task.
    origins = True

    def __init__(self, settings: TrainSection) -> None:
        super().__init__(settings)
        self.options = DpoOptions.model_validate(settings.options)
        self.failures, self.group = self.options.failures, self.options.group

    def prepare(
        self, model: Any, lessons: "Sequence[Lesson]", fit: FitContext
    ) -> "Sequence[Paired]":
        """Each success, and the failure of its task that it is compared with."""
        # torch is imported only where something is trained.
        from fedse_variants.dpo_loss import pair

        return pair(model, list(lessons), self.options, fit)

    def objective(self) -> "Objective[Paired]":
        """DPO's loss of a batch."""
        from fedse_variants.dpo_loss import dpo

        return partial(dpo, options=self.options)
