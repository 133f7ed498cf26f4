"""Outer optimisers: the merged update stands for the gradient of one large step.

What an optimiser remembers has the layout of an adapter, so it is stored as one, with the round
that it belongs to. Each function is pure, and what it remembers is rounded to float32 before it is
used again, so a run that was resumed has the bits of one that was not.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.merging import (
    Adapter,
    AdapterSpec,
    Aggregated,
    AggregateSection,
    Aggregator,
    Merge,
    State,
    Vote,
    Wide,
    WithOptions,
    blocks,
    mean,
    weighted,
)
from fedse_variants.fedexp import fedexp

MERGES: Mapping[str, Merge] = {"mean": mean, "weighted": weighted, "fedexp": fedexp}
"""What gives the update that an optimiser takes for its gradient."""

Share = Annotated[float, Field(ge=0, lt=1)]


class OuterOptions(BaseModel):
    """`aggregate.options` of Nesterov's momentum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: Literal["mean", "weighted", "fedexp"] = "mean"
    """How the votes are merged first."""
    lr: Annotated[float, Field(gt=0)] = 0.7
    """Its learning rate; 0.7 is DiLoCo's (arXiv 2311.08105)."""
    momentum: Share = 0.9
    """Share of the earlier updates that it keeps; Adam's beta1."""


class AdamOptions(OuterOptions):
    """`aggregate.options` of Adam."""

    lr: Annotated[float, Field(gt=0)] = 1e-3
    """Its learning rate; 0.001 is OpenFedLLM's for FedAdam."""
    decay: Share = 0.99
    """Share of the earlier squares that it keeps; its beta2."""
    floor: Annotated[float, Field(gt=0)] = 1e-3
    """What it adds to the root of the squares; the larger, the less it adapts."""


class OuterMove(NamedTuple):
    """One step for a block of numbers: by how much each moves, and what is remembered of it."""

    move: Wide
    moments: tuple[Wide, ...]


Rule = Callable[[Wide, tuple[Wide, ...]], OuterMove]


def outer_step(
    current: Adapter, merged: Adapter, moments: State, rule: Rule, *, lr: float
) -> Aggregated:
    """One step of `rule` from `current`, with the update to `merged` as its direction.

    Where the merge is `current` itself nobody voted, and nothing moves or is forgotten.
    """
    if merged is current:
        return Aggregated(merged, moments)
    size = current.spec.size
    after = [np.empty(size, dtype=np.float32) for _ in moments]
    vector = np.empty(size, dtype=np.float32)
    for part in blocks(size):
        here = current.vector[part].astype(np.float64)
        known = tuple(m.vector[part].astype(np.float64) for m in moments)
        made = rule(merged.vector[part] - here, known)
        vector[part] = here + lr * made.move
        for kept, found in zip(after, made.moments, strict=True):
            kept[part] = found
    spec = current.spec
    return Aggregated(Adapter(spec, vector), tuple(Adapter(spec, kept) for kept in after))


def nesterov(update: Wide, moments: tuple[Wide, ...], options: OuterOptions) -> OuterMove:
    """Nesterov's momentum as in torch's SGD, which DiLoCo uses: v' = m v + d, move d + m v'."""
    velocity = options.momentum * moments[0] + update
    return OuterMove(update + options.momentum * velocity, (velocity,))


def adam(update: Wide, moments: tuple[Wide, ...], options: AdamOptions) -> OuterMove:
    """FedAdam (arXiv 2003.00295): Adam without the correction of its first steps."""
    keep, decay = options.momentum, options.decay
    mean = keep * moments[0] + (1 - keep) * update
    square = decay * moments[1] + (1 - decay) * update**2
    return OuterMove(mean / (np.sqrt(square) + options.floor), (mean, square))


def _outer(
    settings: AggregateSection, options: OuterOptions, rule: Rule, *, remembered: int
) -> Aggregator:
    def init(spec: AdapterSpec) -> State:
        return (Adapter(spec, np.zeros(spec.size, dtype=np.float32)),) * remembered

    def apply(current: Adapter, votes: Sequence[Vote], state: State) -> Aggregated:
        merged = MERGES[options.of](current, votes, settings=settings)
        return outer_step(current, merged, state, rule, lr=options.lr)

    return Aggregator(init, apply)


def _nesterov(settings: AggregateSection, options: OuterOptions) -> Aggregator:
    return _outer(settings, options, partial(nesterov, options=options), remembered=1)


def _adam(settings: AggregateSection, options: AdamOptions) -> Aggregator:
    return _outer(settings, options, partial(adam, options=options), remembered=2)


NESTEROV = WithOptions(_nesterov, OuterOptions)
"""`aggregate.type = "nesterov"`."""
ADAM = WithOptions(_adam, AdamOptions)
"""`aggregate.type = "adam"`."""
