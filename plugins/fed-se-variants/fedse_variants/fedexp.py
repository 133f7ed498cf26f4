"""How far the server goes along the mean update, as the updates themselves suggest.

FedExP (arXiv 2301.09604): max(1, sum_k ||d_k||^2 / (2 K ||mean d||^2)). It needs the sum of the
updates and the sum of their squared lengths, so secure sums would be enough.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from fedse.extend.merging import (
    WEIGHTS,
    Adapter,
    AggregateSection,
    Aggregator,
    Vote,
    Wide,
    WithOptions,
    along_the_mean,
    distance_by_blocks,
    lengths_of,
    ordered_total,
    shares_of,
    stateless,
)

# Keeps 0/0 away; `most` bounds what a mean of almost no length gives.
SMALLEST_SQUARE = 1e-30


class FedExpOptions(BaseModel):
    """`aggregate.options` of FedExP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: Literal["mean", "weighted"] = "mean"
    most: Annotated[float, Field(gt=0)] = 10.0
    """The longest step that it may find, in updates; the shortest is `aggregate.step`."""


class Spread(NamedTuple):
    """How far the updates of one round point apart."""

    mean_square: float
    """The mean of their squared lengths, after clipping."""
    square_of_mean: float
    """The squared length of their mean."""


def step_length(spread: Spread, *, least: float, most: float) -> float:
    """How many times as far as the mean update to go; never less than `least`.

    FedExP finds 1/2 where all updates are equal, and K/2 where K of one length are at right angles.
    """
    found = spread.mean_square / (2 * max(spread.square_of_mean, SMALLEST_SQUARE))
    return max(least, min(found, most))


def fedexp(
    current: Adapter,
    votes: Sequence[Vote],
    *,
    settings: AggregateSection,
    options: FedExpOptions = FedExpOptions(),  # noqa: B008  a value that nobody changes
) -> Adapter:
    """The mean of the votes, or the point beyond it that FedExP finds; `current` without votes."""
    if not votes:
        return current
    ordered = sorted(votes, key=lambda vote: vote.client)
    weights = [WEIGHTS[options.of](vote.lessons) for vote in ordered]
    shares = shares_of(lengths_of(current, ordered), weights, settings)
    total_in, whole = partial(ordered_total, current, ordered, shares), sum(weights)

    def mean_in(part: slice) -> Wide:
        mean: Wide = total_in(part) / whole
        return mean

    squares = [(norm * scale) ** 2 * weight for norm, scale, weight in shares]
    spread = Spread(sum(squares) / whole, distance_by_blocks(current.vector, mean_in) ** 2)
    step = step_length(spread, least=settings.step, most=options.most)
    return along_the_mean(current, total_in, shares, settings.model_copy(update={"step": step}))


def _fedexp(settings: AggregateSection, options: FedExpOptions) -> Aggregator:
    return stateless(partial(fedexp, options=options))(settings)


FEDEXP = WithOptions(_fedexp, FedExpOptions)
"""`aggregate.type = "fedexp"`."""
