"""A round's figures of each role: how often it acted and won, and how much it learned."""

from collections.abc import Mapping, Sequence

from fedse.config.roles import RolesSection
from fedse.method.select import ROLE_SUCCESS
from fedse.role_figures import RoleFit, RoleStats, flat
from fedse.types import Fitted, Trajectory

NOTHING = RoleFit(0.0, 0.0, 0)


def count_roles(
    played: Sequence[Trajectory], fitted: Fitted | None, roles: RolesSection
) -> dict[str, tuple[float, ...]]:
    """The figures of the roles in their order; nothing for an agent without roles.

    Of a role whose block stays at home nothing is told of what it learned.
    """
    if not roles.names:
        return {}
    fits: Mapping[str, RoleFit] = fitted.roles if fitted else {}
    told = {role: fit for role, fit in fits.items() if role not in roles.local}
    own = [_figures(played, role, told.get(role, NOTHING)) for role in roles.names]
    return {"roles": flat(own)}


def has_succeeded(game: Trajectory, role: str) -> bool:
    """Whether the role did; without a reward of its own, it did if all together did."""
    reward = dict(game.role_rewards).get(role)
    return game.success if reward is None else reward >= ROLE_SUCCESS


def _figures(played: Sequence[Trajectory], role: str, fit: RoleFit) -> RoleStats:
    own = [game for game in played if any(turn.role == role for turn in game.turns)]
    won = sum(has_succeeded(game, role) for game in own)
    return RoleStats(len(own), won, *fit)
