"""The page for a data protection officer: one printable HTML file that loads no other.

Each part has a title, a sentence, facts and a table. No part contains the text of an episode, a
person's name or a path.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fedse._version import __version__
from fedse.report.page import asset, source_digest, template
from fedse.report.tables import Cell, Column, Table
from fedse.types import ClientStats

LEAD = (
    "The site learns from episodes that stay here, and sends what it learned: an adapter. An "
    "adapter is derived from the episodes and can reveal parts of them. Where the episodes are "
    "personal data, treat it as personal data too."
)
LEAVES = {
    "adapters": "Each answer consists of an adapter and the numbers below.",
    "sum": "The adapter itself stays here. A masked update leaves, and the server can read only "
    "the sum over all sites. The numbers below are sent unmasked.",
}
"""What an answer consists of, by what the server sees of it."""
A4 = "@page { size: A4; margin: 16mm; }\n"
ANSWERS = (
    Column("round", "round", "count"),
    Column("when", "time (UTC)"),
    Column("what", "what"),
    Column("up", "bytes up", "count"),
    Column("down", "bytes down", "count"),
    Column("played", "played", "count"),
    Column("kept", "learned from", "count"),
    Column("adapter", "adapter"),
)
REDACTED = (
    Column("kind", "kind"),
    Column("before", "replaced", "count"),
    Column("left", "would be replaced", "count"),
)
ERASED = (
    Column("when", "time (UTC)"),
    Column("mark", "mark"),
    Column("lessons", "lessons", "count"),
    Column("games", "games", "count"),
    Column("since", "first learned from"),
)


class PrivacyPart(NamedTuple):
    """One section of the page."""

    id: str
    title: str
    lead: str
    facts: Sequence[tuple[str, str]] = ()
    table: Table | None = None
    note: str = ""


class PrivacyPage(NamedTuple):
    site: str
    federation: str
    server: str
    parts: Sequence[PrivacyPart]
    lead: str = LEAD


def render_privacy(page: PrivacyPage, *, now: datetime) -> str:
    """The whole page."""
    style = asset("page.css") + A4
    policy = (
        f"default-src 'none'; style-src '{source_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    made = now.astimezone().isoformat(timespec="minutes")
    text: str = template("privacy.html.j2").render(
        page=page, policy=policy, style=style, made=made, version=__version__
    )
    return text.lstrip()


def leaving_part(
    rows: Sequence[Sequence[Cell]], server_sees: str, *, with_roles: bool = False
) -> PrivacyPart:
    """What left in each round, from the ledger."""
    names = ", ".join(name for name in ClientStats.model_fields if name != "roles" or with_roles)
    count = f"{len(rows)} answers are on record, including those that were sent again."
    lead = f"{LEAVES[server_sees]} {count}"
    table = Table(ANSWERS, [list(row) for row in rows])
    note = "Flower adds ids, times, a public key and version headers; the server sees the address."
    return PrivacyPart("leaves", "What leaves", lead, [("numbers", names)], table, note)


def rules_part(rules: Mapping[str, object]) -> PrivacyPart:
    lead = "The site's own rules, in policy.toml. The server can neither read nor change them."
    facts = [(name, _plain(value)) for name, value in rules.items()]
    return PrivacyPart("rules", "Rules in force", lead, facts)


def redaction_part(on: Mapping[str, bool], kinds: Mapping[str, Mapping[str, int]]) -> PrivacyPart:
    """What is replaced before an episode is stored, and how often it was."""
    rows: list[list[Cell]] = [[k, n["already"], n["places"]] for k, n in kinds.items()]
    lead = "Found by their form or by the site's own list, and replaced with pseudonyms."
    facts = [(name, "on" if set_ else "off") for name, set_ in on.items()]
    note = "Counted in the episodes stored at present. What no rule finds is not counted."
    return PrivacyPart("redaction", "Redaction", lead, facts, Table(REDACTED, rows), note)


def storage_part(key_id: str, *, exports: int) -> PrivacyPart:
    """How episodes are stored, and how often they were exported."""
    state = f"on, key {key_id}" if key_id else "off"
    lead = "Episodes are in one database that only its owner can read."
    facts = [
        ("encryption at rest", state),
        ("covers", "texts, names of tasks and persons; adapters and counts are not encrypted"),
        ("exports on record", str(exports)),
    ]
    return PrivacyPart("storage", "Storage", lead, facts)


def erasure_part(rows: Sequence[Sequence[Cell]]) -> PrivacyPart:
    lead = f"{len(rows)} persons or cases were forgotten here. A mark does not reveal whom."
    note = (
        "Adapters sent since the round that first learned from them, and all adapters merged from "
        "those, derive from the removed episodes. fedse privacy forget lists them."
    )
    table = Table(ERASED, [list(row) for row in rows])
    return PrivacyPart("erasure", "Erasure", lead, (), table, note if rows else "")


def audit_part(figures: Mapping[str, object] | None) -> PrivacyPart:
    """What attacks on the site's own adapters found, if any were run."""
    lead = "What an attacker who has the site's adapters could learn about its episodes."
    return PrivacyPart("audit", "Audit", lead, _given(figures, "result", "not measured"))


def budget_part(figures: Mapping[str, object] | None) -> PrivacyPart:
    """What differential privacy bounds, and how much of it is spent, if it is on."""
    lead = "A bound on what all answers together reveal about any single episode."
    facts = _given(figures, "state", "off")
    return PrivacyPart("budget", "Differential privacy", lead, facts)


def ledger_part(head: str, key: str, finding: str) -> PrivacyPart:
    """How to prove that this page covers the whole record."""
    lead = (
        "Every answer and every erasure is a line of a file in which no line can be changed, moved "
        "or removed unnoticed. Keep the head: it proves later that no line before it is missing."
    )
    facts = [
        ("head", head or "no line yet"),
        ("signed with", key or "not signed"),
        ("state now", finding or "sound"),
        ("to verify", "fedse ledger verify HOME"),
    ]
    return PrivacyPart("ledger", "Ledger", lead, facts)


def _given(
    figures: Mapping[str, object] | None, name: str, otherwise: str
) -> list[tuple[str, str]]:
    if not figures:
        return [(name, otherwise)]
    return [(key, _plain(value)) for key, value in figures.items()]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else str(value)
