"""How it goes for each role of an agent, in numbers only."""

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

    played: int = 0
    """Games in which the role acted."""
    succeeded: int = 0
    loss: float = 0.0
    """Mean training loss of its tokens in the last pass, nats; 0 = it learned nothing."""
    gradient: float = 0.0
    """Mean over the steps of the norm of its part of the gradient; 0 = not measured."""
    tokens: int = 0
    """That it said and that were learned from in the last pass."""
    drift: float = 0.0
    """Norm of the change of the part of the adapter it acts in."""
    validated: int = 0
    """Validation games in which the role acted, with the adapter the client was sent."""
    validated_succeeded: int = 0
