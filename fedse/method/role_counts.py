"""A round's figures of each role: how often it acted and won, and how much it learned."""

from collections.abc import Mapping, Sequence

from fedse.method.select import ROLE_SUCCESS
from fedse.role_figures import RoleFit, RoleStats, flat
from fedse.types import Fitted, Trajectory

NOTHING = RoleFit(0.0, 0.0, 0)


def count_roles(
    played: Sequence[Trajectory], fitted: Fitted | None, names: Sequence[str]
) -> dict[str, tuple[float, ...]]:
    """The figures of the roles in their order; nothing for an agent without roles."""
    if not names:
        return {}
    fits: Mapping[str, RoleFit] = fitted.roles if fitted else {}
    return {"roles": flat([_figures(played, role, fits.get(role, NOTHING)) for role in names])}


def has_succeeded(game: Trajectory, role: str) -> bool:
    """Whether the role did; without a reward of its own, it did if all together did."""
    reward = dict(game.role_rewards).get(role)
    return game.success if reward is None else reward >= ROLE_SUCCESS


def _figures(played: Sequence[Trajectory], role: str, fit: RoleFit) -> RoleStats:
    own = [game for game in played if any(turn.role == role for turn in game.turns)]
    won = sum(has_succeeded(game, role) for game in own)
    return RoleStats(len(own), won, fit.loss, fit.gradient, fit.tokens, fit.drift)
