"""How it goes for each role of an agent, in numbers only."""

from collections.abc import Sequence
from typing import NamedTuple


class RoleFit(NamedTuple):
    """How a fit went for one role of the agent."""

    loss: float
    """Mean over its tokens of the last pass, nats."""
    gradient: float
    """Mean over the steps of the norm of its part of the gradient; 0 = not measured."""
    tokens: int
    """That it said and that were learned from in the last pass."""
    drift: float = 0.0
    """Norm of the change of the part of the adapter it acts in."""


class RoleStats(NamedTuple):
    """What a client reports about one role in one round."""

    played: float = 0
    """Games in which the role acted."""
    succeeded: float = 0
    loss: float = 0.0
    """Mean training loss of its tokens in the last pass, nats; 0 = it learned nothing."""
    gradient: float = 0.0
    """Mean over the steps of the norm of its part of the gradient; 0 = not measured."""
    tokens: float = 0
    """That it said and that were learned from in the last pass."""
    drift: float = 0.0
    """Norm of the change of the part of the adapter it acts in."""


FIELDS = len(RoleStats._fields)


def flat(roles: Sequence[RoleStats]) -> tuple[float, ...]:
    """The figures of all roles in a row, as they travel: numbers only."""
    return tuple(float(value) for role in roles for value in role)


def by_role(figures: Sequence[float], names: Sequence[str]) -> dict[str, RoleStats]:
    """What `flat` put in a row for the roles of these names; empty where there is nothing."""
    if len(figures) != FIELDS * len(names):
        return {}
    rows = (figures[start : start + FIELDS] for start in range(0, len(figures), FIELDS))
    return {name: RoleStats(*row) for name, row in zip(names, rows, strict=True)}


def are_possible(figures: Sequence[float], names: Sequence[str]) -> bool:
    """Whether a client can report this about the roles of these names; nothing is possible too."""
    rows = by_role(figures, names).values()
    return not figures or (
        len(rows) == len(names) > 0
        and all(value >= 0 for row in rows for value in row)
        and all(row.succeeded <= row.played for row in rows)
    )
