"""What an adapter must not do more often than the present one, however good its success looks.

Agents that learn from feedback have been seen to break tool calls on purpose, where a failed call
is not counted against them, and to ask instead of doing.
"""

from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import Annotated, NamedTuple

from pydantic import Field

from fedse.config.section import Section

Margin = Annotated[float, Field(ge=0, le=1)]
TYPICAL = 0.95
"""The share of the present adapter's sessions that are neither too long nor too slow."""


class GuardMargins(Section):
    """Per guard, how many more of the sessions may show it, as a share of all; 1 = not guarded."""

    invalid_tool_calls: Margin = 0.02
    """Sessions with a tool call that cannot be parsed or does not fit the tool."""
    errors: Margin = 0.02
    """Sessions with a turn that failed."""
    refusals: Margin = 0.02
    """Sessions with a refusal."""
    questions: Margin = 0.05
    """Sessions in which the agent asked back."""
    too_long: Margin = 0.05
    """Sessions with more tokens than 95 % of the present adapter's had."""
    too_slow: Margin = 0.05
    """Sessions with a turn that took longer than the slowest of 95 % of the present adapter's."""


class Totals(NamedTuple):
    """What the turns of an ended session amount to."""

    invalid_tool_calls: int
    errors: int
    refusals: int
    questions: int
    tokens: int
    """Sampled in all turns."""
    seconds: float
    """Of the slowest turn."""


class Limits(NamedTuple):
    """What is too long and too slow, fixed before the candidate serves anyone."""

    tokens: float = inf
    seconds: float = inf


def limits_of(present: Iterable[Totals], *, typical: float = TYPICAL) -> Limits:
    """What that share of the present adapter's sessions does not exceed; of none: no limit."""
    totals = [*present]
    if not totals:
        return Limits()
    return Limits(
        _quantile([one.tokens for one in totals], typical),
        _quantile([one.seconds for one in totals], typical),
    )


def flags_of(totals: Totals, limits: Limits) -> dict[str, bool]:
    """Per guard, whether the session shows it."""
    return {
        "invalid_tool_calls": totals.invalid_tool_calls > 0,
        "errors": totals.errors > 0,
        "refusals": totals.refusals > 0,
        "questions": totals.questions > 0,
        "too_long": totals.tokens > limits.tokens,
        "too_slow": totals.seconds > limits.seconds,
    }


def _quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many do not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]
