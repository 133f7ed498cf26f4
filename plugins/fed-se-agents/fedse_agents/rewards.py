"""What a program reports at an episode's end: its reward, and those of roles that have their own.

A program's `play` returns the reward, or the reward and a mapping from roles to theirs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedse_agents.refused import RequestRefused

Reported = float | tuple[float, Mapping[str, float]]
"""What `play` returns."""


class EndReport(NamedTuple):
    """How an episode ended."""

    reward: float
    success: bool | None = None
    """None = a reward of 1 or more is a success."""
    by_role: tuple[tuple[str, float], ...] = ()
    """Roles with a reward of their own, sorted."""

    @property
    def won(self) -> bool:
        return self.reward >= 1 if self.success is None else self.success


def reported(returned: Reported, roles: Sequence[str]) -> EndReport:
    """The report of a program whose `play` returned this."""
    reward, own = returned if isinstance(returned, tuple) else (returned, {})
    return EndReport(_finite(float(reward)), by_role=_by_role(own, roles))


def parse_reward(fields: Mapping[str, Any], roles: Sequence[str]) -> EndReport:
    """The report in the body of a request, or RequestRefused with the reason."""
    reward, success = fields.get("reward"), fields.get("success")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise RequestRefused(400, "bad_reward", f"reward must be a number, got {reward!r:.100}")
    if success is not None and not isinstance(success, bool):
        raise RequestRefused(400, "bad_success", f"success must be a boolean, got {success!r:.100}")
    own = _by_role(fields.get("rewards") or {}, roles)
    return EndReport(_finite(float(reward)), success, own)


def _by_role(given: object, roles: Sequence[str]) -> tuple[tuple[str, float], ...]:
    if not isinstance(given, Mapping):
        raise _bad("rewards", f"must map roles to numbers, got {given!r:.100}")
    for role, reward in given.items():
        if role not in roles:
            known = ", ".join(roles) or "none"
            raise _bad("rewards", f"must name roles of the agent ({known}), got {role!r:.60}")
        if not isinstance(reward, int | float):
            raise _bad("rewards", f"must be numbers, got {reward!r:.100} for {role}")
    return tuple(sorted((role, _finite(float(reward))) for role, reward in given.items()))


def _finite(reward: float) -> float:
    if not math.isfinite(reward):
        raise RequestRefused(400, "bad_reward", f"reward must be a finite number, got {reward}")
    return reward


def _bad(param: str, message: str) -> RequestRefused:
    return RequestRefused(400, "bad_reward", f"{param} {message}", param=param)
