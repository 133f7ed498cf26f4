"""`fedse federation renew` and `pardon`, for a federation that is running."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fedse.cli.approvals import As, Key, approved
from fedse.cli.federation_options import HERE, Folder, SiteName, opened
from fedse.errors import ConfigError
from fedse.federation.security import note
from fedse.ledger.pardon import grant_pardon
from fedse.store.run_folder import open_run

if TYPE_CHECKING:
    from fedse.federation.folder import Federation


def renew(
    *,
    dir_: Folder = HERE,
    days: Annotated[int, Parameter(help="How long the new certificate is valid.")] = 365,
    new_key: Annotated[bool, Parameter(help="Replace the server's private key as well.")] = False,
) -> None:
    """Give the server a new certificate; sites already trust it and need not act.

    A running server picks it up, and the round continues.

    Example: fedse federation renew --dir federation
    """
    if days < 1:
        raise ConfigError(f"--days must be 1 or more, got {days}")
    federation = opened(dir_)
    from fedse.federation.renewal import renew as renew_certificate

    ends = renew_certificate(federation, now=datetime.now(UTC), days=days, new_key=new_key)
    note(federation.path, "certificate.renewed", clock=time.time)
    print(f"the server's certificate is valid until {ends:%Y-%m-%d}")


def pardon(
    site: SiteName,
    /,
    *,
    dir_: Folder = HERE,
    reason: Annotated[str, Parameter(help="The reason; it is recorded in the ledger.")] = "",
    as_: As = None,
    key: Key = None,
) -> None:
    """End a site's quarantine: it takes part again from the next round.

    Its earlier strikes no longer count, and the ledger records that. New ones count.

    Example: fedse federation pardon north --reason "wrong version, upgraded"
    """
    federation = opened(dir_)
    from fedse.federation.folder import hints_name

    with approved(federation, "pardon", site, as_, key) as now:
        if now:
            with hints_name(federation.path), open_run(federation.run, clock=time.time) as run:
                granted = grant_pardon(run, site, reason=reason, clock=time.time)
            print(f"{site} is pardoned: strikes up to round {granted.after} no longer count")


def effect(federation: "Federation") -> str:
    """When a change to the list takes effect: at once if the server is running."""
    from fedse.flower.ops.serve_federation import sync_nodes

    if sync_nodes(federation):
        return ", effective now"
    start = f"fedse federation start --dir {federation.path}"
    return f"; the server is not running, so this takes effect with: {start}"


def expiries(federation: "Federation") -> dict[str, Callable[[], float]]:
    """When each certificate of the federation expires, read at each call."""
    from fedse.federation.keys import valid_until

    files = {"server": federation.identity.certificate, "authority": federation.identity.ca}

    def reader(file: Path) -> Callable[[], float]:
        return lambda: valid_until(file).timestamp()

    return {name: reader(file) for name, file in files.items()}
