"""What a machine keeps on its disk; each machine decides this for itself."""

from typing import Annotated

from pydantic import Field, field_validator

from fedse.config.section import Section

LEAST = 2


class StorageSection(Section):
    """What is kept on this machine's disk, and how; digests, counts and ledgers are always kept."""

    rounds: Annotated[int, Field(ge=0)] = 0
    """A run keeps the adapters of this many of its newest committed rounds; 0 = all, otherwise at
    least 2. It also keeps the adapter it started from."""
    answers: Annotated[int, Field(ge=0)] = 5
    """A client keeps the adapters of this many of its newest votes in its outbox; 0 = all,
    otherwise at least 2. If a round is asked for again, the answer comes from there."""
    days: Annotated[int, Field(ge=0)] = 0
    """A site removes the episodes of rounds that it answered more than this many days ago, and says
    so in its ledger; 0 = it keeps them. It looks when it is asked something, also while it is
    paused. Adapters that learned from them stay as they are."""
    key: str = ""
    """The key that encrypts episodes on this disk: a file (a relative path starts at the site's
    folder, and $NAME in it is an environment variable), or env:NAME, a variable that holds the key
    itself. Empty = not encrypted. `fedse privacy encrypt` makes one."""

    @field_validator("rounds", "answers")
    @classmethod
    def _enough(cls, kept: int) -> int:
        if 0 < kept < LEAST:
            raise ValueError(f"must be 0 (all) or at least {LEAST}, got {kept}")
        return kept
