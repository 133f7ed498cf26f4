"""The roles an agent of several parts acts in, and which of them share a part of the adapter."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedse.config.section import Section
from fedse.suggest import did_you_mean

ROLE_NAME = r"^[a-z0-9][a-z0-9_-]{0,31}$"
RoleName = Annotated[str, Field(pattern=ROLE_NAME)]
SHARED = "+"
"""Between the names of roles that share a block, in the block's name."""


class RolesSection(Section):
    """An agent of several roles, such as a planner and its workers."""

    names: tuple[RoleName, ...] = ()
    """The roles, as an agent program or an environment names them; empty = the agent has none."""
    policy: Literal["shared", "isolated"] = "shared"
    """`shared`: all roles act and learn with one adapter; `isolated`: every role has a block of the
    adapter for itself, unless `together` says otherwise."""
    together: tuple[tuple[RoleName, ...], ...] = ()
    """Groups of roles that share a block of the adapter, with policy `isolated`."""
    local: tuple[RoleName, ...] = ()
    """Roles whose block never leaves a site: every site has its own, and nothing of it is merged.
    Whoever shares a block with such a role must be local too."""
    balance: bool = True
    """Every role has the same weight in the loss, however many tokens it said, and parallel
    conversations of one role that begin with the same prompt count as one."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _require_unique("roles.names", self.names)
        _require_unique("roles.together", chain.from_iterable(self.together))
        for setting, named in (
            ("together", chain.from_iterable(self.together)),
            ("local", self.local),
        ):
            if unknown := sorted(set(named) - set(self.names)):
                raise ValueError(f"roles.{setting} names {unknown[0]!r}: it is not in roles.names")
        if self.together and self.policy == "shared":
            raise ValueError('roles.together needs roles.policy = "isolated"')
        if self.local and not self.blocks:
            raise ValueError(
                'roles.local needs roles.policy = "isolated" and more than one block: '
                "what all roles share cannot stay at home"
            )
        for group in self.together:
            if 0 < len(set(group) & set(self.local)) < len(group):
                raise ValueError(f"roles.together: {list(group)} must be local together or not")
        if self.names and set(self.names) <= set(self.local):
            raise ValueError("roles.local holds every role, so nothing would be federated")
        return self

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the parts of the adapter, sorted; empty if there is one part only."""
        found = sorted({self.block_of(role) for role in self.names})
        return tuple(found) if len(found) > 1 else ()

    def block_of(self, role: str) -> str:
        """The block in which this role acts and learns; "" if all roles have one block."""
        if self.policy == "shared" or len(self.names) < 2:
            return ""
        group = next((group for group in self.together if role in group), (role,))
        return SHARED.join(sorted(group))

    @property
    def local_blocks(self) -> tuple[str, ...]:
        """The blocks that never leave a site."""
        return tuple(sorted({self.block_of(role) for role in self.local}))

    @property
    def merged_blocks(self) -> tuple[str, ...]:
        """The blocks that are merged, sorted; empty if the adapter has one part only."""
        return tuple(block for block in self.blocks if block not in self.local_blocks)

    def blocks_voted_on(self, acting: Sequence[str]) -> tuple[str, ...]:
        """Of the merged blocks, those in which one of the acting roles learns; none named = all."""
        return tuple(block for block in self.merged_blocks if block in self._learned(acting))

    def blocks_kept(self, acting: Sequence[str]) -> tuple[str, ...]:
        """Of the local blocks, those in which one of the acting roles learns; none named = all."""
        return tuple(block for block in self.local_blocks if block in self._learned(acting))

    def _learned(self, acting: Sequence[str]) -> set[str]:
        return {self.block_of(role) for role in acting or self.names}

    def unmerged(self, acting: Mapping[str, Sequence[str]]) -> str:
        """Why nothing would be merged at one of these clients, or of a role; empty = all is well.

        `acting` has the roles of every client; none named = all.
        """
        for client, roles in acting.items():
            if unknown := sorted({*roles} - {*self.names}):
                return f"clients.roles of {client!r} names {unknown[0]!r}: it is not in roles.names"
            if twice := sorted(name for name, n in Counter(roles).items() if n > 1):
                return f"clients.roles of {client!r} has {twice[0]!r} twice"
            if self.merged_blocks and not self.blocks_voted_on(roles):
                return (
                    f"clients.roles of {client!r} has local roles only, so nothing of it would be "
                    "merged: name another role, or leave the client out"
                )
        voted = {block for roles in acting.values() for block in self.blocks_voted_on(roles)}
        if alone := sorted({*self.merged_blocks} - voted):
            return f"no client has the role {alone[0].split(SHARED)[0]!r}: see clients.roles"
        return ""


def unknown_role(model: str, roles: Sequence[str]) -> str:
    """Why a request for this model is for no role; empty if it is, or the agent has no roles."""
    if not roles or model in roles:
        return ""
    named = f"model must be a role of the agent: {', '.join(roles)}; got {model!r:.60}"
    return f"{named}{did_you_mean(model, roles)}"


def _require_unique(setting: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise ValueError(f"{setting} has {twice[0]!r} twice")
