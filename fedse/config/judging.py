"""What is measured, with which tasks, what that decides, and what a client makes for itself."""

from typing import Annotated

from pydantic import Field, model_validator

from fedse.config.section import Fraction, Positive, Section


class SplitsSection(Section):
    """Shares of a client's own tasks that it never learns from; the rest is for training."""

    validation: Fraction = 0.0
    """Share of its own tasks that a client keeps for decisions: which adapter is accepted, which
    one is exported."""
    home: Fraction = 0.0
    """Share of its own tasks that a client keeps for reports on how well it does at home; they
    decide nothing."""

    @model_validator(mode="after")
    def _something_to_learn_from(self) -> "SplitsSection":
        if self.validation + self.home >= 1:
            raise ValueError("validation and home together must leave tasks to learn from")
        return self


class EvalSection(Section):
    episodes: Annotated[int, Field(ge=0)] = 50
    """Held-out episodes per client and evaluation; 0 = never evaluate."""
    home: Annotated[int, Field(ge=0)] = 0
    """Episodes per client and evaluation in its own held-out tasks (`splits.home`)."""
    every: Positive = 1
    """Evaluate the adapter that enters every n-th round, and always the first and last one."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Sampling temperature of evaluation (not stated in the paper); 0 = greedy."""

    @property
    def games(self) -> int:
        """Games per client and evaluation; none unless held-out ones are played."""
        return self.episodes and self.episodes + self.home


class GateSection(Section):
    """A merged adapter is accepted only if the sites do no worse with it (`splits.validation`)."""

    episodes: Annotated[int, Field(ge=0)] = 0
    """Validation episodes per client and adapter; 0 = no gate (paper)."""
    liars: Annotated[int, Field(ge=0)] = 1
    """How many members may lie or poison at once; there must be more than twice as many in all. If
    above 0, every round also checks whether the votes that agree least with the others do harm."""


class PersonalSection(Section):
    """The adapter a client makes for itself from the global one; it never leaves the client."""

    steps: Annotated[int, Field(ge=0)] = 0
    """Optimiser steps from the global adapter on the client's own buffer; 0 = no personal
    adapter."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """Peak learning rate, cosine to zero; unset = train.lr."""
    every: Annotated[int, Field(ge=0)] = 0
    """Make and measure the personal adapter in every n-th evaluation; 0 = only after the last
    round."""
