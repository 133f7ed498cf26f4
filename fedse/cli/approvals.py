"""Options by which an operator gives a command, and what is said if another must approve."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fedse.errors import ConfigError

if TYPE_CHECKING:
    from fedse.federation.folder import Federation
    from fedse.ledger.decisions import Action

As = Annotated[
    str | None, Parameter(name="--as", help="The operator who gives the command, if there are any.")
]
Key = Annotated[Path | None, Parameter(name="--key", help="That operator's private key.")]


@contextmanager
def approved(
    federation: "Federation", action: "Action", subject: str, as_: str | None, key: Path | None
) -> Iterator[bool]:
    """Whether it may be done now; if not, another operator must give the same command."""
    from fedse.federation.operators import OperatorKey, decision

    if (as_ is None) != (key is None):
        raise ConfigError("--as and --key belong together", hint="--as NAME --key FILE")
    given = OperatorKey(as_, key) if as_ and key else None
    with decision(federation, action, subject, given, clock=time.time) as approvals:
        if not approvals.complete:
            print(f"approved by {', '.join(approvals.by)}; nothing is done yet")
            same = (
                "the same command" if action == "amend" else f"fedse federation {action} {subject}"
            )
            print(f"next     another operator: {same} --as NAME --key FILE")
        yield approvals.complete
