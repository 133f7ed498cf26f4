"""What a ledger line records about a round: names, digests and numbers, from a database.

A server's lines follow from its committed rounds, a client's from its outbox, so a line can be
recreated as long as these exist. A client's line is the experiment's name, digests and
numbers: no field of it can hold what an agent saw or said.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationError

from fedse.audit.verdict import AuditResult
from fedse.committed import Exclusion, LateVotes, RegionalVotes, RoundResult, VotedBlocks
from fedse.ledger.chain import Entry, Finding
from fedse.ledger.decisions import Decision
from fedse.protocol import SiteReply
from fedse.types import CLIENT_NAME, Record

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Experiment = Annotated[str, Field(pattern=CLIENT_NAME)]
Count = Literal[
    "played",
    "succeeded",
    "broken",
    "truncated",
    "added",
    "buffered",
    "eval_played",
    "eval_succeeded",
]
OutboxKey = tuple[str, int, str]
"""Experiment, round and digest of the request."""


class RoundEntry(Record):
    """A committed round."""

    round: int
    before: Digest
    after: Digest
    voters: tuple[str, ...]
    abstained: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    absent: tuple[str, ...]
    bytes_down: int
    bytes_up: int
    late: LateVotes = ()
    blocks: VotedBlocks = {}  # noqa: RUF012 (pydantic copies it)
    regions: RegionalVotes = ()
    recovered: bool = False
    """Written at a restart, not when it happened."""


class AnswerEntry(Record):
    """A client's finished answer to one request."""

    experiment: Experiment
    round: int
    request: Digest
    received: Digest | None
    """Digest of the adapter that came with the request; None = no longer known."""
    sent: Digest | None
    """Digest of the adapter that answers it; None = no vote."""
    bytes_down: int | None
    bytes_up: int
    episodes: dict[Count, int]
    recovered: bool = False

    @property
    def key(self) -> OutboxKey:
        return self.experiment, self.round, self.request


class ResentEntry(Record):
    """An answer that was sent again."""

    experiment: Experiment
    round: int
    request: Digest
    sent: Digest | None
    bytes_up: int


class PardonEntry(Record):
    """The coordinator has ended a client's quarantine."""

    client: str
    after: int
    """Strikes up to this round no longer count."""
    reason: str
    recovered: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.client, self.after


class AgreementEntry(Record):
    """The coordinator has signed an amendment."""

    number: int
    document: Digest
    """Of all that was signed."""
    since: int
    """The first round for which it holds."""
    agreed: Digest
    spec: str
    members: tuple[str, ...]
    reason: str


Decider = Literal["owner", "rules"]


class AgreedEntry(Record):
    """A site has accepted an amendment."""

    number: int
    document: Digest
    client: str
    by: Decider | None = None
    """Who decided; None = the coordinator does not know."""


class ForgottenEntry(Record):
    """A client has erased everything about a person or case, whom this line does not name."""

    mark: Digest
    """Hash of the name and a salt that stays in the client's buffer."""
    lessons: int
    games: int
    parts: int
    seen: dict[Experiment, int]
    """The first round with a lesson about it; 0 = a demonstration."""


class RemovedEntry(Record):
    """A client has removed episodes that were older than it keeps them."""

    days: int
    """How long it keeps them."""
    rounds: dict[Experiment, int]
    """By experiment, the last round that was too old."""
    lessons: int
    games: int


class MovedEntry(Record):
    """Episodes and the account of the budget have come from another home, or gone to one."""

    other: Digest
    """What the members of the other home's federation agreed on."""
    lessons: int
    charges: int


class SummedEntry(Record):
    """A region has added up votes of its sites."""

    experiment: Experiment
    round: int
    request: Digest
    voters: tuple[str, ...]
    """Whose votes the sum is of."""
    bound: float | None
    """The length at which each update was clipped; None = not clipped."""
    sum: Digest
    bytes_up: int


class AuditEntry(Record):
    """What an audit found before an answer was sent, or when the owner asked for it."""

    experiment: Experiment
    round: int
    request: Digest | None
    """The request whose answer was audited; None = the owner asked."""
    passed: bool
    """Whether the rules at that time allowed the answer to leave."""
    result: AuditResult

    @property
    def key(self) -> OutboxKey | None:
        return None if self.request is None else (self.experiment, self.round, self.request)


SHAPES: Mapping[str, type[Record]] = {
    "round": RoundEntry,
    "pardoned": PardonEntry,
    "decided": Decision,
    "answered": AnswerEntry,
    "resent": ResentEntry,
    "agreement": AgreementEntry,
    "agreed": AgreedEntry,
    "forgotten": ForgottenEntry,
    "removed": RemovedEntry,
    "brought": MovedEntry,
    "left": MovedEntry,
    "summed": SummedEntry,
    "audited": AuditEntry,
}


def round_entries(entries: Sequence[Entry]) -> list[tuple[int, RoundEntry]]:
    """Line number and content of the lines about rounds."""
    return [(e.line, RoundEntry.model_validate(e.facts)) for e in entries if e.kind == "round"]


def answer_entries(entries: Sequence[Entry]) -> list[tuple[int, AnswerEntry]]:
    return [(e.line, AnswerEntry.model_validate(e.facts)) for e in entries if e.kind == "answered"]


def pardon_entries(entries: Sequence[Entry]) -> list[tuple[int, PardonEntry]]:
    return [(e.line, PardonEntry.model_validate(e.facts)) for e in entries if e.kind == "pardoned"]


def audit_entries(entries: Sequence[Entry]) -> list[tuple[int, AuditEntry]]:
    return [(e.line, AuditEntry.model_validate(e.facts)) for e in entries if e.kind == "audited"]


def shape_fault(entries: Sequence[Entry]) -> Finding | None:
    """The first line whose facts do not match its kind; kinds of later versions are accepted."""
    for entry in entries:
        try:
            if entry.kind in SHAPES:
                SHAPES[entry.kind].model_validate(entry.facts)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            return Finding(entry.line, f"is not a line of kind {entry.kind}: see {where}")
    return None


def round_entry(result: RoundResult) -> RoundEntry:
    shared = set(RoundEntry.model_fields) & set(RoundResult.model_fields)
    return RoundEntry(round=result.index, **result.model_dump(include=shared))


def answer_entry(
    key: OutboxKey, reply: SiteReply, *, received: str | None, bytes_down: int | None
) -> AnswerEntry:
    """The entry for `reply`, the answer to the request of that key."""
    experiment, round, request = key
    adapter = reply.adapter
    return AnswerEntry(
        experiment=experiment,
        round=round,
        request=request,
        received=received,
        sent=None if adapter is None else hashlib.sha256(adapter).hexdigest(),
        bytes_down=bytes_down,
        bytes_up=len(adapter or b""),
        episodes=reply.stats.model_dump(include=set(get_args(Count))),
    )
