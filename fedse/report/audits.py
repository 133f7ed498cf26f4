"""The last audit of each client, from the ledgers of a run that holds its clients' folders."""

from fedse.ledger.entries import AuditEntry
from fedse.report.facts import RunFacts
from fedse.report.figures import PageSection
from fedse.report.tables import CLIENT, ROUND, Cell, Column, Table

COLUMNS = (
    CLIENT,
    ROUND,
    Column("lessons", "lessons", "count"),
    Column("auc", "AUC", "rate"),
    Column("low", "95 % from", "rate"),
    Column("high", "to", "rate"),
    Column("tpr", "found at 1 % false alarms", "rate"),
    Column("typed", "bits of a typed secret", "rate"),
    Column("seen", "bits of a seen secret", "rate"),
    Column("verdict", "verdict", "long"),
)


def audit(facts: RunFacts, id: str) -> PageSection:
    """What the server could learn from a reply, by the strongest attack."""
    rows = [_row(client, entry) for client, entry in facts.audits.items()]
    lead = (
        "What does a client's reply reveal to the server about the episodes behind it? The figures "
        "are those of the strongest attack: an AUC of 0.5 is a guess, 1 is certainty, and a "
        "secret of which nothing is known is exposed by 1.4 bits."
    )
    return PageSection(id, "Audit", lead, [], Table(COLUMNS, rows), "The last audit of each client")


def _row(client: str, entry: AuditEntry) -> list[Cell]:
    result = entry.result
    best = max(result.attacks, key=lambda one: one.auc.value, default=None)
    spans: list[Cell] = [best.auc.value, best.auc.low, best.auc.high] if best else [None] * 3
    bits = {one.place: one.bits.value for one in result.canaries}
    verdict = "passed" if entry.passed else "did not pass"
    if result.failed_controls:
        verdict = f"the audit did not work: {', '.join(result.failed_controls)}"
    worst: list[Cell] = [result.worst.tpr if best else None, bits.get("typed"), bits.get("seen")]
    return [client, entry.round, result.lessons, *spans, *worst, verdict]
