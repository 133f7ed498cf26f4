"""`fedse federation create --above`: a federation that is a region of another one."""

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.federation.security import note

if TYPE_CHECKING:
    from fedse.federation.folder import Card, Federation

AboveOption = Annotated[
    Path | None,
    Parameter(help="Invitation of the coordinator above, of which this will be a region."),
]


def require_pair(above: Path | None, fingerprint: str) -> None:
    """A fingerprint is given only for an invitation."""
    if fingerprint and above is None:
        raise ConfigError(
            "--fingerprint is that of the coordinator above, and there is no --above",
            hint="add --above INVITATION, or leave --fingerprint out",
        )


def region_made(
    out: Path, above: Path, fingerprint: str, given: Config, *, card: "Card", now: datetime
) -> "Federation":
    """The federation in `out` is a region of the one that wrote the invitation."""
    from fedse.federation.above import ABOVE, create_region
    from fedse.federation.invite import read_invite

    offered = read_invite(above, trusted=fingerprint, now=time.time())
    made = create_region(out, offered, given, card=card, now=now, clock=time.time)
    note(made.path / ABOVE, "site.joined", clock=time.time)
    return made
