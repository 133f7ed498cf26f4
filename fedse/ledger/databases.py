"""What the owner of a ledger has stored, from a database opened read-only."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from fedse.committed import RoundResult
from fedse.errors import StoreError, boundary
from fedse.ledger.entries import AnswerEntry, OutboxKey, PardonEntry, answer_entry
from fedse.protocol import SiteReply
from fedse.store.database import Database, damaged, names_of, open_database, parse_row
from fedse.store.outbox import TRAIN
from fedse.types import ClientStats


class AnsweredRequest(NamedTuple):
    """A row of the outbox, without its answer."""

    key: OutboxKey
    kind: str


def committed_rounds(database: Path) -> dict[int, RoundResult]:
    """The rounds in a run's state.db; none if there is no such file."""
    rows = _rows(database, "SELECT result FROM round WHERE result IS NOT NULL")
    results = [parse_row(RoundResult, body, database) for (body,) in rows]
    return {result.index: result for result in results}


def granted_pardons(database: Path) -> dict[tuple[str, int], PardonEntry]:
    """The pardons in a run's state.db; none if there is no such file or table."""
    if not _rows(database, "SELECT 1 FROM sqlite_master WHERE name = 'pardon'"):
        return {}
    rows = _rows(database, "SELECT client, after, reason FROM pardon ORDER BY after, client")
    granted = [PardonEntry(client=c, after=after, reason=reason) for c, after, reason in rows]
    return {one.key: one for one in granted}


def outbox_answers(database: Path) -> Iterator[AnswerEntry]:
    """The finished answers in a buffer, the oldest round first; one adapter in memory at a time."""
    listed = "SELECT experiment, round, request, {kind} FROM outbox ORDER BY round, {kind}"
    for row in _rows(database, listed):
        yield from answers_to(database, _request(*row))


def newest_requests(database: Path) -> Iterator[AnsweredRequest]:
    """What was answered, the last one first; only what is asked for is read."""
    query = (
        "SELECT experiment, round, request, {kind}, rowid FROM outbox WHERE rowid < ?"
        " ORDER BY rowid DESC LIMIT 16"
    )
    before = sys.maxsize
    while page := _rows(database, query, (before,)):
        yield from (_request(*row[:-1]) for row in page)
        before = page[-1][-1]


def answers_to(database: Path, asked: AnsweredRequest) -> Iterator[AnswerEntry]:
    """The answer to a request, unless it is gone by now."""
    query = "SELECT stats, adapter FROM outbox WHERE (experiment, round, request) = (?, ?, ?)"
    for stats, adapter in _rows(database, query, asked.key):
        reply = SiteReply(parse_row(ClientStats, stats, database), adapter)
        try:
            entry = answer_entry(asked.key, reply, received=None, bytes_down=None)
        except ValidationError as error:
            raise damaged(database, f"the answer of round {asked.key[1]}") from error
        is_whole = adapter is not None or asked.kind != TRAIN
        described = {} if is_whole else _described(database, asked.key)
        yield entry.model_copy(update=described)


def _request(experiment: object, round: int, request: object, kind: str) -> AnsweredRequest:
    return AnsweredRequest((str(experiment), int(round), str(request)), kind)


def erasure_marks(database: Path) -> set[str]:
    """The marks of all erasures in a buffer; none if there is no such file or table."""
    if not _rows(database, "SELECT 1 FROM sqlite_master WHERE name = 'erasure'"):
        return set()
    return {mark for (mark,) in _rows(database, "SELECT mark FROM erasure")}


def outbox_audits(database: Path) -> dict[OutboxKey, bool]:
    """Which answers in a buffer were audited, and whether they passed; none without a table."""
    if not _rows(database, "SELECT 1 FROM sqlite_master WHERE name = 'audit'"):
        return {}
    found = _rows(database, "SELECT experiment, round, request, fault FROM audit ORDER BY round")
    return {(str(name), int(r), str(request)): not fault for name, r, request, fault in found}


def outbox_rounds(database: Path) -> set[tuple[str, int]]:
    """Experiments and rounds that have an answer."""
    return {
        (name, round) for name, round in _rows(database, "SELECT experiment, round FROM outbox")
    }


def finished_rounds(database: Path, experiment: str, *, after: int) -> dict[int, ClientStats]:
    """What a site counted in its work on the rounds after that one, not on a gate's questions."""
    query = (
        "SELECT round, stats FROM outbox WHERE experiment = ? AND round > ?"
        " AND {kind} != 'validate' ORDER BY round, {kind}"
    )
    found = _rows(database, query, (experiment, after))
    return {int(round): parse_row(ClientStats, stats, database) for round, stats in found}


def _kind_column(db: Database) -> str:
    """Of a file that no newer version has opened yet, every answer may be a vote."""
    return "kind" if "kind" in names_of(db, "outbox") else f"'{TRAIN}'"


def _described(database: Path, key: OutboxKey) -> dict[str, Any]:
    """Digest and length of an adapter that is stored in pieces or already deleted."""
    place = key[:2]
    if not _rows(database, "SELECT 1 FROM sqlite_master WHERE name = 'sent'"):
        return {}
    query = "SELECT digest, bytes FROM sent WHERE (experiment, round) = (?, ?)"
    found = _rows(database, query, place)
    if not found:
        return {}
    pieces = "SELECT body FROM sent_piece WHERE (experiment, round, piece) = (?, ?, ?)"
    digest, number = hashlib.sha256(), 0
    while rows := _rows(database, pieces, (*place, number)):
        digest.update(rows[0][0])
        number += 1
    (named, length) = found[0]
    return {"sent": digest.hexdigest() if number else named, "bytes_up": length}


def _rows(database: Path, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """What a query finds, in which `{kind}` stands for the column of that name in the outbox."""
    if not database.is_file():
        return []
    with (
        boundary(StoreError, f"read {database}"),
        closing(open_database(database, read_only=True)) as db,
    ):
        if "{kind}" in query:
            query = query.format(kind=_kind_column(db))
        return db.execute(query, parameters).fetchall()
