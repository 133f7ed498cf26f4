"""Security events of a coordinator or a site: one JSON object per line, for a SIEM.

Names, numbers and words of ours: no field has room for what an agent saw or said, or for a reason
that a person typed.
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from fedse.errors import ConfigError, StoreError, boundary
from fedse.events import Fact, Observer
from fedse.store.files import add_line
from fedse.types import CLIENT_NAME, Clock, Record

FILE = "security.jsonl"
LONGEST = 200
"""Characters of a reason."""

Severity = Literal["info", "warning", "alert"]
EventName = Literal[
    "site.invited",
    "site.enrolled",
    "enrolment.refused",
    "key.changed",
    "site.revoked",
    "site.struck",
    "site.quarantined",
    "site.pardoned",
    "agreement.changed",
    "agreement.accepted",
    "approval.waiting",
    "operator.refused",
    "certificate.renewed",
    "ledger.failed",
    "restored",
    "site.joined",
    "key.requested",
    "person.forgotten",
]


class Kind(NamedTuple):
    severity: Severity
    meaning: str


EVENTS: dict[EventName, Kind] = {
    "site.invited": Kind("info", "an invitation was signed; whoever holds the file can enrol once"),
    "site.enrolled": Kind("info", "the site's key is on the list, so it can take part"),
    "enrolment.refused": Kind("warning", "a request to enrol or to replace a key was refused"),
    "key.changed": Kind("info", "the site's key was replaced; a site notes it when it uses it"),
    "site.revoked": Kind("warning", "the site's key is never accepted again"),
    "site.struck": Kind("warning", "the site's reply was rejected or suspected, which is a strike"),
    "site.quarantined": Kind(
        "alert", "the site is not asked any more; once after each start of the server"
    ),
    "site.pardoned": Kind("warning", "the site's strikes no longer count"),
    "agreement.changed": Kind("warning", "an amendment of what members agree on was signed"),
    "agreement.accepted": Kind("info", "this site's owner accepted an amendment"),
    "approval.waiting": Kind("info", "an operator approved of what needs a second one"),
    "operator.refused": Kind("warning", "a command had no operator's key, or not the right one"),
    "certificate.renewed": Kind("info", "the server has a new certificate"),
    "ledger.failed": Kind("alert", "a line of a ledger was changed, or lines are missing"),
    "restored": Kind("warning", "the folder was made from a backup"),
    "site.joined": Kind("info", "this site accepted an invitation and has a key"),
    "key.requested": Kind("info", "this site asks the coordinator to replace its key"),
    "person.forgotten": Kind("info", "this site erased everything about a person or case"),
}


class SecurityEvent(Record):
    """One line of the file."""

    time: str
    """UTC, as in 2026-11-18T09:20:22.125Z."""
    event: EventName
    severity: Severity
    place: Literal["coordinator", "site"]
    """Whose folder the file is in."""
    federation: str
    site: Annotated[str, Field(pattern=CLIENT_NAME)] | None = None
    """The site that the event is about."""
    by: tuple[str, ...] | None = None
    """The operators who approved, where the federation names any."""
    round: int | None = None
    """The round whose reply is meant."""
    reason: Annotated[str, Field(max_length=LONGEST)] | None = None
    """Why a reply, a request or a ledger was refused, in our words."""


def note(
    folder: Path,
    event: EventName,
    *,
    clock: Clock,
    site: str | None = None,
    by: tuple[str, ...] = (),
    round: int | None = None,
    reason: str = "",
) -> None:
    """The event is in the file of the federation or home that `folder` is or belongs to.

    A folder that belongs to neither has no such file.
    """
    owner = next(filter(None, map(_owner, (folder, folder.parent))), None)
    if owner is None:
        return
    told = SecurityEvent(
        time=f"{datetime.fromtimestamp(clock(), UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
        event=event,
        severity=EVENTS[event].severity,
        place=owner.place,
        federation=owner.federation,
        site=site or owner.site,
        by=by or None,
        round=round,
        reason=reason[:LONGEST] or None,
    )
    line = told.model_dump_json(exclude_none=True, ensure_ascii=True).encode() + b"\n"
    with boundary(StoreError, f"security events {owner.folder / FILE}"):
        add_line(owner.folder / FILE, line)


class _Owner(NamedTuple):
    folder: Path
    place: Literal["coordinator", "site"]
    federation: str
    site: str | None


def _owner(folder: Path) -> _Owner | None:
    """Whose folder it is, by the card that is in it."""
    card, home = folder / "federation.toml", folder / "site.toml"
    with boundary(StoreError, f"{folder}"):
        if card.is_file():
            return _Owner(folder, "coordinator", tomllib.loads(card.read_text())["name"], None)
        if home.is_file():
            read = tomllib.loads(home.read_text())
            return _Owner(folder, "site", read["federation"], read["site"])
    return None


@contextmanager
def refusals_noted(folder: Path, event: EventName, *, clock: Clock) -> Iterator[None]:
    """What is refused meanwhile is in the file as well; a file that cannot be read is an error."""
    try:
        yield
    except ConfigError as error:
        note(folder, event, clock=clock, reason=str(error))
        raise


def noted(folder: Path, *, clock: Clock) -> Observer:
    """Notes what a run's events say about strikes, quarantine and the ledger, if it can."""
    out: set[object] = set()

    def observe(event: str, facts: dict[str, Fact]) -> None:
        name, site = KINDS.get(str(facts.get("kind"))), facts.get("client")
        # The event itself is on disk; that one is missing here must not stop what is watched.
        with suppress(StoreError):
            if event == "answer.excluded" and name and (name == "site.struck" or site not in out):
                round, reason = int(facts["round"] or 0), str(facts["reason"])
                note(folder, name, clock=clock, site=str(site), round=round, reason=reason)
            elif event == "loop.failed" and str(facts["error"]).startswith("ledger "):
                note(folder, "ledger.failed", clock=clock, reason=str(facts["error"]))
        if event == "answer.excluded":
            (out.add if name == "site.quarantined" else out.discard)(site)

    return observe


KINDS: dict[str, EventName] = {
    "rejected": "site.struck",
    "suspected": "site.struck",
    "quarantined": "site.quarantined",
}
