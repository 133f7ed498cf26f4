"""Audits by hand: what a server could find out from a client's reply, in a run or at a site."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import initial_adapter
from fedse.api.checks import require_machine
from fedse.api.running import root_of
from fedse.audit.conduct import AuditPlan
from fedse.audit.verdict import AuditResult, AuditRules
from fedse.config.hardware import EngineSection
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError
from fedse.ledger.audits import note_audit
from fedse.ledger.entries import AuditEntry
from fedse.results.outcome import committed_round
from fedse.site.auditing import audit_site
from fedse.site.local_blocks import with_own_blocks
from fedse.site.own_adapters import kept_adapter
from fedse.store.gc import client_databases
from fedse.store.run_folder import find_run, open_run
from fedse.types import Adapter, AdapterSpec

Tell = Callable[[str], None]


class ClientAudit(NamedTuple):
    """The audit of one client's reply to a round."""

    client: str
    round: int
    result: AuditResult


def audit_run(
    run: str | Path = "last",
    *,
    rules: AuditRules,
    client: str | None = None,
    round: int | None = None,
    seed: int = 0,
    tell: Tell,
    out: Path | None = None,
) -> list[ClientAudit]:
    """The reply of each client, or of one, to `round`, by default the last, attacked by the server.

    Each has its line in the client's ledger; nothing else is written into the run.
    """
    require_machine("local")
    with open_run(find_run(str(run), root_of(out))) as opened:
        last = committed_round(opened, round)
        if not last:
            raise ConfigError(
                "round 0 is the adapter the run began with, which nobody made from lessons",
                hint="--round 1",
            )
        start, names = opened.adapter(last - 1), [one.name for one in opened.config.clients]
        config, path = opened.config, opened.path
    if client is not None and client not in names:
        raise ConfigError(
            f"{client!r} is not a client of {path.name}; its clients are {', '.join(names)}",
            hint=f"--client {names[0]}",
        )
    plan = AuditPlan(shadows=rules.shadows, seed=seed)
    return [
        _audited(config, name, _home(path, name), start, plan, rules, round=last, tell=tell)
        for name in ([client] if client else names)
    ]


def audit_home(
    config: Config, client: str, home: Path, *, rules: AuditRules, seed: int = 0, tell: Tell
) -> ClientAudit:
    """The reply a site would send now, from the newest adapter it has of the federation.

    That is the first one of the experiment, if the site keeps none.
    """
    require_machine("local")
    plan = AuditPlan(shadows=rules.shadows, seed=seed)
    return _audited(config, client, home, None, plan, rules, round=None, tell=tell)


def _audited(
    config: Config,
    client: str,
    home: Path,
    start: Adapter | None,
    plan: AuditPlan,
    rules: AuditRules,
    *,
    round: int | None,
    tell: Tell,
) -> ClientAudit:
    from fedse.site.open import open_site

    # Nothing is played, so no server of replies is needed.
    config = config.model_copy(update={"engine": EngineSection()})
    site = open_site(config, client, home, clock=time.time)
    with closing(site.buffer):
        newest = round or site.buffer.outbox.newest(config.run.name) or 1
        number = min(newest, config.run.last)
        came = start or _newest_global(site.spec, config, home)
        begun = with_own_blocks(came, site, config, before=number)

        def aside(text: str) -> None:
            tell(f"{client}: {text}")

        result = audit_site(begun, site, config, plan, round=number, tell=aside)
    passed = result.passes(rules)
    entry = AuditEntry(
        experiment=config.run.name, round=number, request=None, passed=passed, result=result
    )
    note_audit(home, client, entry, clock=time.time)
    return ClientAudit(client, number, result)


def _newest_global(spec: AdapterSpec, config: Config, home: Path) -> Adapter:
    kept = kept_adapter(home, "global", spec)
    return kept.adapter if kept else initial_adapter(spec, seed=config.run.seed)


def _home(run: Path, client: str) -> Path:
    for database in client_databases(run):
        if database.parent.name == client:
            return database.parent
    raise StoreError(
        f"{run} has no buffer of {client}: its lessons are not on this machine",
        hint="at the site itself: fedse privacy audit --home HOME",
    )
