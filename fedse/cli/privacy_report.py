"""`fedse privacy report`: one page about what leaves, for the person responsible."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fedse.cli.redact import count_kinds, stored_findings
from fedse.cli.site_options import HERE, HomeOption, buffer_of, opened
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.ledger.chain import FILE, Entry
from fedse.ledger.entries import audit_entries
from fedse.ledger.verifying import verify_ledger
from fedse.report.privacy import (
    PrivacyPage,
    PrivacyPart,
    audit_part,
    budget_part,
    erasure_part,
    leaving_part,
    ledger_part,
    redaction_part,
    render_privacy,
    rules_part,
    storage_part,
)
from fedse.report.tables import Cell
from fedse.site.private_training import rounds_left, spent_with
from fedse.site.rules import in_force, read_rules
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.erasure import Erasure
from fedse.store.files import write_whole

if TYPE_CHECKING:
    from fedse.federation.home import Home

SHORT = 12


def report(
    out: Annotated[Path, Parameter(help="The HTML file to make.")],
    /,
    *,
    home: HomeOption = HERE,
) -> None:
    """Write one printable page: what leaves, rules, redaction, encryption, erasures, ledger.

    It contains no text of an episode and no person's name, so it can be filed or passed on.

    Example: fedse privacy report privacy.html
    """
    if out.exists():
        raise ConfigError(f"{out} already exists", hint="choose another file")
    site = opened(home)
    card = site.card
    page = PrivacyPage(card.site, card.federation, card.server, [*_parts(site)])
    write_whole(out, render_privacy(page, now=datetime.now(UTC)).encode())
    print(out)


def _parts(opened: "Home") -> Iterator[PrivacyPart]:
    home, config = opened.path, opened.config
    verdict = verify_ledger(home / FILE) if (home / FILE).is_file() else None
    entries = verdict.entries if verdict else ()
    sees, roles = config.aggregate.server_sees, bool(config.roles.names)
    yield leaving_part([*_answers(entries)], sees, with_roles=roles)
    rules = in_force(read_rules(opened.policy), config)
    yield rules_part(flat(rules.model_dump(mode="json")))
    redact = config.redact
    settings = {"secrets": redact.secrets, "personal data by form": redact.personal}
    own = {"words of the site": bool(redact.words), "patterns": bool(redact.patterns)}
    yield redaction_part({**settings, **own}, count_kinds([*stored_findings(opened)]))
    yield from _stored(opened)
    yield audit_part(last_audit(entries))
    finding = verdict.finding if verdict else None
    yield ledger_part(
        entries[-1].hash if entries else "",
        str(entries[0].facts["key"] or "") if entries else "",
        f"line {finding.line} {finding.reason}" if finding else "",
    )


def _stored(opened: "Home") -> Iterator[PrivacyPart]:
    database = opened.path / "buffer.db"
    erased: list[Erasure] = []
    exports, budget = 0, dict[str, object]()
    if database.is_file():
        with buffer_of(opened.path) as buffer:
            erased, exports = buffer.erasures.all(), len(buffer.exports.all())
            budget = spent_budget(buffer, opened.config)
    yield storage_part(seal_beside(database).key_id, exports=exports)
    yield erasure_part([*map(_erased, erased)])
    yield budget_part(budget)


def _erased(one: Erasure) -> list[Cell]:
    since = ", ".join(f"round {max(1, number)} of {name}" for name, number in one.seen.items())
    return [_when(one.made), one.mark[:SHORT], one.lessons, one.games, since or "never"]


def _answers(entries: tuple[Entry, ...]) -> Iterator[list[Cell]]:
    for entry in entries:
        if entry.kind in ("answered", "resent"):
            facts: Mapping[str, Any] = entry.facts
            episodes = facts.get("episodes", {})
            counts = [episodes.get(name) for name in ("played", "buffered")]
            sizes = [facts["bytes_up"], facts.get("bytes_down")]
            adapter = (facts["sent"] or "no vote")[:SHORT]
            yield [facts["round"], _when(entry.time), entry.kind, *sizes, *counts, adapter]


def last_audit(entries: Sequence[Entry]) -> dict[str, object]:
    """Figures of the newest audit on record, by name; empty = there was none."""
    audits = audit_entries(entries)
    if not audits:
        return {}
    line, entry = audits[-1]
    result, worst = entry.result, entry.result.worst
    if not result.attacks:
        return {"result": f"{result.lessons} lessons are too few for an audit, so nothing was sent"}
    failed = ", ".join(result.failed_controls)
    when = next(_when(one.time) for one in entries if one.line == line)
    return {
        "time (UTC)": when,
        "round": entry.round,
        "lessons": result.lessons,
        "AUC, strongest attack": f"{worst.auc:.3f} (0.5 is a guess, 1 is certainty)",
        "lessons recognised at 1 % false alarms": f"{worst.tpr:.3f}",
        "bits of a planted secret": f"{worst.bits:.1f} (1.4 is chance, 12 is all)",
        "controls": f"failed: {failed}" if failed else "as expected",
        "verdict": "passed" if entry.passed else "did not pass, so the answer was not sent",
    }


def spent_budget(buffer: Buffer, config: Config) -> dict[str, object]:
    """How much of the privacy budget is spent, by name; empty = there is none."""
    if not config.privacy.on:
        return {}
    settings, journal = config.privacy, buffer.outbox.privacy
    return {
        "protects": f"one {settings.unit}",
        "epsilon spent": f"{spent_with(journal, config):.4g} of {settings.epsilon:g}",
        "delta": f"{settings.delta:g}",
        "rounds left": rounds_left(journal, config),
    }


def flat(rules: Mapping[str, object], under: str = "") -> dict[str, object]:
    """Every rule by its whole name, as `audit.every`."""
    found: dict[str, object] = {}
    for name, value in rules.items():
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {under + name: value}
    return found


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
