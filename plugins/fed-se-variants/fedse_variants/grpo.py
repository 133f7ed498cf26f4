"""`train.loss = "grpo"`: its settings, and what it asks of a round; the loss is in grpo_loss.py."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.learning import Adapter, FitContext, Loss, TrainError, TrainSection

if TYPE_CHECKING:
    from fedse.extend.losses import Lesson, Objective
    from fedse_variants.grpo_loss import Weighed

Clip = Annotated[float, Field(gt=0, lt=1)]


class GrpoOptions(BaseModel):
    """`train.options` of GRPO."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Annotated[int, Field(ge=2)] = 8
    """Games of each task that is played in a round."""
    clip: tuple[Clip, Clip] = (0.2, 0.28)
    """How far a token's ratio may fall below 1 or rise above it and still be learned from."""
    cap: Annotated[float, Field(ge=1)] = 2.0
    """A larger ratio counts as this one."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the divergence from the adapter that the round starts from."""


class Grpo(Loss):
    """Towards the better games of a task and away from the worse ones, in proportion to reward."""

    Options = GrpoOptions
    # At another temperature the games would be those of another policy than the one trained. All
    # clients' games in one place would be compared with each other.
    needs: ClassVar[Mapping[str, object]] = {"rollout.temperature": 1.0, "buffer.pooled": False}
    # There is no reward before the first exploration.
    explored = True
    origins = True
    fresh = True

    def __init__(self, settings: TrainSection) -> None:
        super().__init__(settings)
        self.options = GrpoOptions.model_validate(settings.options)
        self.group = self.options.group

    def prepare(
        self, model: Any, lessons: "Sequence[Lesson]", fit: FitContext
    ) -> "Sequence[Weighed]":
        """The lessons with their advantages, if the model is the one that they were played with."""
        # torch is imported only where something is trained.
        from fedse_variants.grpo_loss import weigh

        return weigh(model, list(lessons), fit)

    def objective(self) -> "Objective[Weighed]":
        """The clipped loss of a batch."""
        from fedse_variants.grpo_loss import grpo

        return partial(grpo, options=self.options)

    def leaves(self, trained: Adapter, start: Adapter) -> Adapter:
        """The trained adapter; its B has moved, or nothing can be learned with these settings."""
        before = start.tensors()
        factors = {name: b for name, b in trained.tensors().items() if ".lora_B." in name}
        if all((b == before[name]).all() for name, b in factors.items()):
            raise TrainError(
                "the steps of grpo left every B as it was, so nothing was learned",
                hint="raise train.lr",
            )
        return trained
