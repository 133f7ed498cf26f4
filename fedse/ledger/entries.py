"""What a line of a ledger says about a round: names, digests and numbers, made from a database.

A server's lines follow from its committed rounds, a client's from its outbox, so a line can be
made again as long as these are there. Databases are opened for reading only. A client's line is
the experiment's name, digests and numbers: no field of it can hold what an agent saw or said.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from fedse.committed import Exclusion, RoundResult
from fedse.errors import StoreError, boundary
from fedse.ledger.chain import Entry, Finding
from fedse.protocol import SiteReply
from fedse.types import CLIENT_NAME, ClientStats, Record

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
    """An answer that left once more."""

    experiment: Experiment
    round: int
    request: Digest
    sent: Digest | None
    bytes_up: int


SHAPES: Mapping[str, type[Record]] = {
    "round": RoundEntry,
    "answered": AnswerEntry,
    "resent": ResentEntry,
}


def round_entries(entries: Sequence[Entry]) -> list[tuple[int, RoundEntry]]:
    """Line number and content of the lines about rounds."""
    return [(e.line, RoundEntry.model_validate(e.facts)) for e in entries if e.kind == "round"]


def answer_entries(entries: Sequence[Entry]) -> list[tuple[int, AnswerEntry]]:
    return [(e.line, AnswerEntry.model_validate(e.facts)) for e in entries if e.kind == "answered"]


def shape_fault(entries: Sequence[Entry]) -> Finding | None:
    """The first line whose facts are not those of its kind; kinds of later versions may be any."""
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


def committed_rounds(database: Path) -> dict[int, RoundResult]:
    """The rounds in a run's state.db; none if there is no such file."""
    rows = _rows(database, "SELECT result FROM round WHERE result IS NOT NULL")
    results = [RoundResult.model_validate_json(body) for (body,) in rows]
    return {result.index: result for result in results}


def outbox_answers(database: Path, *, skip: set[OutboxKey] | None = None) -> Iterator[AnswerEntry]:
    """The finished answers in a buffer, the oldest round first; one adapter in memory at a time."""
    keys = _rows(database, "SELECT experiment, round, request FROM outbox ORDER BY round")
    for experiment, round, request in keys:
        key = (str(experiment), int(round), str(request))
        if key in (skip or ()):
            continue
        query = "SELECT stats, adapter FROM outbox WHERE (experiment, round, request) = (?, ?, ?)"
        for stats, adapter in _rows(database, query, key):
            reply = SiteReply(ClientStats.model_validate_json(stats), adapter)
            yield answer_entry(key, reply, received=None, bytes_down=None)


def _rows(database: Path, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    if not database.is_file():
        return []
    address = f"{database.resolve().as_uri()}?mode=ro"
    with (
        boundary(StoreError, f"read {database}"),
        closing(sqlite3.connect(address, uri=True, timeout=30.0)) as db,
    ):
        return db.execute(query, parameters).fetchall()
