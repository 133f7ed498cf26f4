"""What a machine keeps on its disk: its own decision. Nobody agrees on it."""

from typing import Annotated

from pydantic import Field, field_validator

from fedse.config.section import Section

LEAST = 2


class StorageSection(Section):
    """What stays on this machine's disk, and how; digests, counts and ledgers stay anyway."""

    rounds: Annotated[int, Field(ge=0)] = 0
    """Committed rounds whose adapters a run keeps, the newest ones; 0 = all, else 2 or more. The
    adapter it began with stays as well."""
    answers: Annotated[int, Field(ge=0)] = 5
    """Votes whose adapters a client keeps in its outbox, the newest ones; 0 = all, else 2 or more.
    A round that is asked for again is answered from there."""
    key: str = ""
    """The key that episodes are encrypted with on this disk: a file (a relative path begins at the
    site's folder, $NAME is an environment variable in it), or env:NAME, a variable with the key
    itself. Empty = not encrypted. `fedse privacy encrypt` makes one."""

    @field_validator("rounds", "answers")
    @classmethod
    def _enough(cls, kept: int) -> int:
        if 0 < kept < LEAST:
            raise ValueError(f"must be 0 (all) or at least {LEAST}, got {kept}")
        return kept
