"""Outer optimisers: the merged update stands for the gradient of one large step.

What an optimiser remembers has the layout of an adapter, so it is stored as one, with the round
that it belongs to. Each function is pure, and what it remembers is rounded to float32 before it is
used again, so a run that was resumed has the bits of one that was not.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedse.aggregate.norms import Wide, blocks
from fedse.config.aggregation import AggregateSection
from fedse.types import Adapter

Moments = tuple[Adapter, ...]
"""What an optimiser remembers: nothing, the velocity, or the mean and the mean square."""

LEARNING_RATE = {"nesterov": 0.7, "adam": 1e-3}
"""Where none is set: DiLoCo's (arXiv 2311.08105), and OpenFedLLM's for FedAdam."""


class Stepped(NamedTuple):
    """The next global adapter, and what the optimiser remembers for the round after it."""

    adapter: Adapter
    moments: Moments


class OuterMove(NamedTuple):
    """One step for a block of numbers: by how much each moves, and what is remembered of it."""

    move: Wide
    moments: tuple[Wide, ...]


def outer_step(
    current: Adapter, merged: Adapter, moments: Moments, settings: AggregateSection
) -> Stepped:
    """One step of `settings.outer` from `current`, with the update to `merged` as its direction.

    Without an optimiser it is `merged` itself. Where the merge is `current` itself nobody voted,
    and nothing moves or is forgotten.
    """
    if settings.outer == "none" or merged is current:
        return Stepped(merged, moments)
    rule, remembered = RULES[settings.outer]
    rate = settings.outer_lr or LEARNING_RATE[settings.outer]
    size = current.spec.size
    before = [m.vector for m in moments] or [np.zeros(size, dtype=np.float32)] * remembered
    after = [np.empty(size, dtype=np.float32) for _ in range(remembered)]
    vector = np.empty(size, dtype=np.float32)
    for part in blocks(size):
        here = current.vector[part].astype(np.float64)
        known = tuple(m[part].astype(np.float64) for m in before)
        made = rule(merged.vector[part] - here, known, settings)
        vector[part] = here + rate * made.move
        for kept, found in zip(after, made.moments, strict=True):
            kept[part] = found
    spec = current.spec
    return Stepped(Adapter(spec, vector), tuple(Adapter(spec, kept) for kept in after))


def nesterov(update: Wide, moments: tuple[Wide, ...], settings: AggregateSection) -> OuterMove:
    """Nesterov's momentum as in torch's SGD, which DiLoCo uses: v' = m v + d, move d + m v'."""
    momentum = settings.outer_momentum
    velocity = momentum * moments[0] + update
    return OuterMove(update + momentum * velocity, (velocity,))


def adam(update: Wide, moments: tuple[Wide, ...], settings: AggregateSection) -> OuterMove:
    """FedAdam (arXiv 2003.00295): Adam without the correction of its first steps."""
    keep, decay = settings.outer_momentum, settings.outer_decay
    mean = keep * moments[0] + (1 - keep) * update
    square = decay * moments[1] + (1 - decay) * update**2
    return OuterMove(mean / (np.sqrt(square) + settings.outer_floor), (mean, square))


Rule = Callable[[Wide, tuple[Wide, ...], AggregateSection], OuterMove]
RULES: Mapping[str, tuple[Rule, int]] = {"nesterov": (nesterov, 1), "adam": (adam, 2)}
"""Each optimiser, and how many vectors it remembers."""
