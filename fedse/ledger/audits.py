"""Whether the lines about audits are right, as far as that can be verified.

- An audit in the buffer beside a ledger must have its line, with the same verdict.
- An answer that did not pass must not have been sent. The ledger alone shows that.
- An answer that left after policy.toml was last changed left under these rules, so an audit that
  was due by them must have its line. For earlier answers the rules of the time are not known.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedse.audit.verdict import AuditRules
from fedse.ledger.chain import Entry, Finding
from fedse.ledger.entries import AuditEntry, OutboxKey, answer_entries, audit_entries
from fedse.ledger.writing import Ledger
from fedse.types import Clock

POLICY = "policy.toml"


class AuditDuty(NamedTuple):
    """How often a site's rules require an audit, and since when."""

    every: int
    since: float
    """Seconds since 1970."""


def note_audit(home: Path, client: str, audit: AuditEntry | None, *, clock: Clock) -> None:
    """The audit, if there was one, has its line; that of one answer has one."""
    if audit is None:
        return
    ledger = Ledger(home, role="client", name=client, clock=clock)
    if audit.request is None:
        ledger.append("audited", audit.model_dump(mode="json"))
    else:
        by = ("experiment", "round", "request")
        ledger.append_once("audited", audit, naming=audit.request, by=by)


def audit_duty(home: Path) -> AuditDuty | None:
    """What the rules in a site's home require now; None = no audit, or unreadable rules.

    With such rules a site answers nothing.
    """
    policy = home / POLICY
    try:
        rules = tomllib.loads(policy.read_text(encoding="utf-8")).get("audit", {})
        every = AuditRules.model_validate(rules).every
    except (OSError, ValueError):
        return None
    return AuditDuty(every, policy.stat().st_mtime) if every else None


def audit_fault(
    entries: Sequence[Entry], stored: Mapping[OutboxKey, bool], duty: AuditDuty | None
) -> Finding | None:
    """The first line that contradicts an audit, or that was sent without one."""
    lines = {one.key: (line, one) for line, one in audit_entries(entries) if one.key}
    for key, passed in stored.items():
        line, audit = lines.get(key, (0, None))
        if audit is not None and audit.passed != passed:
            return Finding(line, f"differs from the audit of round {key[1]} in the buffer")
    for line, answer in answer_entries(entries):
        known = lines.get(answer.key)
        if answer.sent and known and not known[1].passed:
            return Finding(line, f"sends an answer of round {answer.round} that did not pass")
        if not known and answer.key in stored:
            return Finding(line, f"has no line about the audit of round {answer.round} before it")
    return _neglected(entries, duty) if duty else None


def _neglected(entries: Sequence[Entry], duty: AuditDuty) -> Finding | None:
    """The first answer with an adapter that was sent under these rules without a required audit."""
    audits = [one for _, one in audit_entries(entries) if one.key]
    times = {entry.line: entry.time for entry in entries}
    for line, answer in answer_entries(entries):
        # A line that was written after a crash has the time of the next start.
        if not answer.sent or answer.recovered or times[line] <= duty.since:
            continue
        own = [one for one in audits if one.experiment == answer.experiment]
        before = [one for one in own if one.round < answer.round]
        last = max(before, key=lambda one: one.round, default=None)
        due = last is None or not last.passed or answer.round - last.round >= duty.every
        if due and answer.key not in {one.key for one in own}:
            asked = f"{POLICY} asks for with every = {duty.every}"
            return Finding(line, f"sends round {answer.round} without the audit that {asked}")
    return None
