"""The roles an agent of several parts acts in, and which of them share a part of the adapter."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedse.config.section import Section

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
        return SHARED.join(next((group for group in self.together if role in group), (role,)))

    @property
    def local_blocks(self) -> tuple[str, ...]:
        """The blocks that never leave a site."""
        return tuple(sorted({self.block_of(role) for role in self.local}))


def _require_unique(setting: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise ValueError(f"{setting} has {twice[0]!r} twice")
