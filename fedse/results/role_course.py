"""How it went for every role from round to round, all clients together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.role_figures import RoleStats, by_role
from fedse.stats.rates import Rate, micro
from fedse.store.run import Run

Validations = Mapping[str, Mapping[str, tuple[int, int]]]
"""Digest of an adapter -> client -> validation games won and played with it."""


def validations_of(run: Run, results: Iterable[RoundResult]) -> Validations:
    """Those of the adapters of these rounds; none for an agent without roles."""
    if not run.config.roles.names:
        return {}
    return {one.after: run.validations(one.after) for one in results}


class RoleRound(NamedTuple):
    """One role in one round."""

    round: int
    role: str
    share: float
    """Of the gradient of all roles, by the sum over the clients of its mean norm."""
    loss: float | None
    """Mean over its tokens; None = no client learned from it."""
    played: Rate
    """Games to learn from in which it acted."""
    drift: float
    """Mean over the clients that learned from it."""


def role_course(results: Sequence[RoundResult], config: Config) -> list[RoleRound]:
    """Every role in every round, in the order of the rounds and of `roles.names`."""
    found = []
    for result in results:
        own = [by_role(stats.roles, config.roles.names) for stats in result.stats.values()]
        masses = {
            role: sum(_mass(one[role], one) for one in own if one) for role in config.roles.names
        }
        whole = sum(masses.values()) or 1.0
        for role in config.roles.names:
            figures = [one[role] for one in own if one]
            found.append(_together(result.index, role, masses[role] / whole, figures))
    return found


def _mass(one: RoleStats, beside: Mapping[str, RoleStats]) -> float:
    """The norm of its gradient; where no client process measured it, its loss over all tokens."""
    measured = any(other.gradient for other in beside.values())
    return one.gradient if measured else one.tokens * one.loss


def _together(round: int, role: str, share: float, figures: Sequence[RoleStats]) -> RoleRound:
    learned = [one for one in figures if one.tokens]
    tokens = sum(one.tokens for one in learned)
    return RoleRound(
        round,
        role,
        share,
        sum(one.loss * one.tokens for one in learned) / tokens if tokens else None,
        micro([Rate(int(one.succeeded), int(one.played)) for one in figures]),
        sum(one.drift for one in learned) / max(1, len(learned)),
    )


def block_course(
    results: Sequence[RoundResult], config: Config, validations: Validations
) -> dict[str, dict[int, Rate]]:
    """Block -> round -> how often its adapter succeeded where roles of the block act.

    By validation games if there are any. Without them, by the games that were played to learn
    from, which an adapter plays in the round after its own.
    """
    found: dict[str, dict[int, Rate]] = {}
    for block in config.roles.blocks:
        own = {role for role in config.roles.names if config.roles.block_of(role) == block}
        clients = {c.name for c in config.clients if own & set(c.roles or config.roles.names)}
        judged = {one.index: _validated(one.after, clients, validations) for one in results}
        if not any(rate.n for rate in judged.values()):
            judged = {one.index - 1: _explored(one, own, config) for one in results}
        found[block] = {index: rate for index, rate in judged.items() if rate.n}
    return found


def _validated(adapter: str, clients: set[str], validations: Validations) -> Rate:
    counts = validations.get(adapter, {})
    return micro([Rate(*count) for client, count in counts.items() if client in clients])


def _explored(result: RoundResult, roles: set[str], config: Config) -> Rate:
    own = [by_role(stats.roles, config.roles.names) for stats in result.stats.values()]
    most = [max((one[role] for role in roles), key=_games) for one in own if one]
    return micro([Rate(int(one.succeeded), int(one.played)) for one in most])


def _games(one: RoleStats) -> float:
    return one.played
