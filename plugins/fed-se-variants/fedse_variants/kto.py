"""`train.loss = "kto"`: its settings, and what it asks of a fit; the loss is in kto_loss.py."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.learning import FitContext, Loss, TrainSection

if TYPE_CHECKING:
    from fedse.extend.losses import Lesson, Objective
    from fedse_variants.kto_loss import Judged

Weight = Annotated[float, Field(ge=0)]


class KtoOptions(BaseModel):
    """`train.options` of KTO."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failures: Weight = 1.0
    """Failed episodes per lesson at most, the newest ones."""
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How soon a change of an episode's log-probability is enough."""
    desirable_weight: Weight = 1.0
    """Weight of successes."""
    undesirable_weight: Weight = 1.0
    """Weight of failures."""
    sft_weight: Weight = 1.0
    """Weight of the likelihood of the successes beside it."""
    reference: Literal["start", "base"] = "start"
    """Changes are counted from the adapter the round starts from, or from the base model."""


class Kto(Loss):
    """Away from failed episodes too, with a likelihood term."""

    Options = KtoOptions
    needs: ClassVar[Mapping[str, object]] = {"buffer.keep_played": True}
    # There is no failure to learn from before the first exploration.
    explored = True

    def __init__(self, settings: TrainSection) -> None:
        super().__init__(settings)
        self.options = KtoOptions.model_validate(settings.options)
        self.failures = self.options.failures

    def prepare(
        self, model: Any, lessons: "Sequence[Lesson]", fit: FitContext
    ) -> "Sequence[Judged]":
        """The lessons with what they are compared with: each with all others, so all in memory."""
        # torch is imported only where something is trained.
        from fedse_variants.kto_loss import judge

        return judge(model, list(lessons), self.options, fit)

    def objective(self) -> "Objective[Judged]":
        """KTO's loss of a batch."""
        from fedse_variants.kto_loss import kto

        return partial(kto, options=self.options)
