"""How a client trains in a round: what all members agree on, unlike the hardware they train on.

The length of a round is given in one of two ways: passes over the buffer (`epochs`, bounded by
`max_steps`), or an exact number of optimiser steps (`steps`).
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fedse import plugins
from fedse.config.section import Options, Positive, Section, one_of, require_options
from fedse.course import LEVEL, Arc

PASSES = ("epochs", "max_steps")
"""The settings that give the length of a round in passes; `steps` is the other way."""


LOSSES = one_of("sft", group=plugins.LOSSES)


class TrainSection(Section):
    epochs: Positive | None = 2
    """Passes over the whole buffer per round (paper: 2); unset if train.steps is set."""
    lr: Annotated[float, Field(gt=0)] = 5e-5
    """Peak learning rate of AdamW (paper: 5e-5), without warm-up; train.schedule sets how it
    falls."""
    batch: Positive = 8
    """Trajectories per optimiser step (not stated in the paper)."""
    max_steps: Positive | None = None
    """Upper bound on optimiser steps per round; unset = whole epochs."""
    steps: Positive | None = None
    """Exact number of optimiser steps per round, instead of train.epochs and train.max_steps:
    training passes over the buffer repeatedly, each time in a new order. Unset = train.epochs
    decides."""
    schedule: Literal["round", "run", "constant"] = "round"
    """How the learning rate falls: a cosine to zero in every round (paper), one cosine over all of
    run.rounds, or not at all."""
    optimizer: Literal["fresh", "kept"] = "fresh"
    """AdamW's state when a round begins: `fresh` = none, `kept` = its moments from the site's last
    round, which stay at the site."""
    loss: Annotated[str, LOSSES] = "sft"
    """What is minimised: `sft` = the negative log-likelihood (paper), the name of an installed
    variant, or `module:name`."""
    options: Options = {}  # noqa: RUF012 (pydantic copies it)
    """Settings for a `loss` that is not built in, which checks them itself."""
    factors: Literal["both", "b"] = "both"
    """Which of LoRA's two factors are learned and sent (paper: both). `b` leaves A at its initial
    value (FFA)."""
    batches: Literal["shuffled", "by-length"] = "shuffled"
    """Which trajectories share a step: any, or ones of similar length, which need less padding."""

    def moments(self, stored: Callable[[], bytes | None]) -> bytes | None:
        """What the optimiser begins a round with: the stored moments, if they are kept."""
        return stored() if self.optimizer == "kept" else None

    def steps_over(self, lessons: int) -> int:
        """Optimiser steps of a fit with so many lessons."""
        if not lessons:
            return 0
        if self.steps is not None:
            return self.steps
        whole = (self.epochs or 0) * ceil(lessons / self.batch)
        return min(whole, self.max_steps or whole)

    def steps_of_last_pass(self, *, lessons: int, steps: int) -> int:
        """How many of a fit's steps are its last pass, or as many as an average one has."""
        if self.epochs is None:
            return min(steps, ceil(lessons / self.batch))
        return max(1, ceil(steps / self.epochs))

    @model_validator(mode="before")
    @classmethod
    def _no_default_beside_steps(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("steps") is not None:
            return {"epochs": None, **given}
        return given

    @model_validator(mode="after")
    def _one_length(self) -> "TrainSection":
        passes = [key for key in PASSES if getattr(self, key) is not None]
        if self.steps is not None and passes:
            beside = " and ".join(f"train.{key} = {getattr(self, key)}" for key in passes)
            raise ValueError(
                f"train.steps = {self.steps} already fixes the length of a round: "
                f"remove it, or {beside}"
            )
        if self.steps is None and self.epochs is None:
            raise ValueError("a round needs a length: set train.epochs or train.steps")
        return self

    @model_validator(mode="after")
    def _allowed(self) -> "TrainSection":
        require_options("train.options", LOSSES.variant(self.loss), self.options)
        return self


class WarmstartSection(Section):
    """Behaviour cloning before exploration: the first rounds learn from demonstrations only."""

    rounds: Annotated[int, Field(ge=0)] = 0
    """How many of run.rounds, from the first, learn from demonstrations only; the adapter after
    them is the warm start (paper: 0)."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """Peak learning rate; unset = train.lr."""
    steps: Positive | None = None
    """Exact number of optimiser steps per round; unset = as in [train]."""


def rivals(location: Sequence[str | int]) -> tuple[str, ...]:
    """The settings of the same section that give a round's length in the other way."""
    match tuple(location):
        case ("train", "steps"):
            return PASSES
        case ("train", key) if key in PASSES:
            return ("steps",)
    return ()


def warm_training(train: TrainSection, warm: WarmstartSection) -> TrainSection:
    """How a client trains in a round of the warm start."""
    own: Mapping[str, Any] = warm.model_dump(exclude={"rounds"}, exclude_none=True)
    exact = dict.fromkeys(PASSES) if warm.steps else {}
    return train.model_copy(update={**exact, **own})


def arc_of(train_in: Callable[[int], TrainSection], round: int, *, last: int) -> Arc:
    """The part of the learning rate's cosine that `round` covers; `train_in` tells of each round.

    Over the whole run, a round's part is as long as its share of the optimiser steps, or of the
    upper bounds on them. Where a round has neither, all rounds have equal parts.
    """
    own = train_in(round)
    if own.schedule == "round":
        return Arc()
    if own.schedule == "constant":
        return LEVEL
    trainings = [train_in(index) for index in range(1, last + 1)]
    known = [training.steps or training.max_steps for training in trainings]
    lengths = [length or 1 for length in known] if all(known) else [1] * len(known)
    return Arc(sum(lengths[: round - 1]), lengths[round - 1], sum(lengths))
