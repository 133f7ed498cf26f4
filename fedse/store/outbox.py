"""A site's finished work, in the buffer's file: a question is answered again, not worked on again.

Every question has a row of its own. Only the answer to a question of kind `train` is a vote and can
have an adapter, and a round has one of these. The optimiser's moments after the newest vote are
kept with it. An adapter is in the row of its answer or, if it is too long for one, in pieces. Of an
adapter that is no longer kept, the digest and the length remain (table `sent`), so that the ledger
can still be compared with the outbox.

What an audit of an answer found stands beside it, written with it: an answer that was withheld has
no adapter and a fault, and there is no moment at which it has an adapter and no verdict.
"""

import hashlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import NamedTuple

from fedse.faults import Fault
from fedse.protocol import SiteReply
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database, parse_row
from fedse.store.local_blocks import LocalBlocks
from fedse.store.privacy_journal import PrivacyJournal
from fedse.types import ClientStats

PIECE_BYTES = 1 << 28
"""Of an adapter or of the moments in one row; SQLite allows 10^9."""
LEAST_KEPT = 2
"""The answer that may be asked for again, and the vote before it, from which it was made."""

TRAIN = "train"
"""The kind of question whose answer is a vote."""
OF = "WHERE experiment = ? AND round = ?"
VOTE = f"{OF} AND kind = '{TRAIN}'"


class KeptVote(NamedTuple):
    """An answer whose adapter is in the outbox."""

    experiment: str
    round: int
    bytes: int


class Outbox:
    """The answers of one client in its open file."""

    def __init__(self, db: Database) -> None:
        self._db, self.privacy, self.local = db, PrivacyJournal(db), LocalBlocks(db)

    def finish(
        self,
        experiment: str,
        round: int,
        request: str,
        done: SiteReply,
        *,
        kind: str = TRAIN,
        moments: bytes | None = None,
        local: Mapping[str, bytes] | None = None,
        keep: int = 0,
        audit: str | None = None,
        noise: bool = False,
    ) -> None:
        """The answer to `request` is durable before anybody learns of it.

        No part of its games is left, and after a vote no secret of its noise. The optimiser's
        moments, if there are any, take the place of the earlier ones; the site's own blocks of the
        adapter are added to those of the vote before. Of the newest `keep` votes
        the adapters are kept, of all if it is 0. `audit` is what was found in an audit of this
        answer, if there was one. `noise` = its training was charged.
        """
        with transaction(self._db):
            if kind == TRAIN:
                self.privacy.note_replaced(experiment, round)
                self._make_room(experiment, round)
            self._insert(experiment, round, kind, request, done)
            gone = self.privacy.forget_secrets(experiment, up_to=round) if kind == TRAIN else 0
            if kind == TRAIN and not noise:
                self.privacy.note_without_noise(experiment, round)
            self._replace_audit((experiment, round, request), done, audit)
            gone += self._db.execute("DELETE FROM part").rowcount
            if moments is not None:
                self._replace_moments(experiment, round, moments)
            if local:
                self.local.keep(experiment, round, local)
            gone += sum(map(self._drop, self._old_votes(experiment, keep)))
        if gone:
            # What is overwritten in the database remains in its log until that is emptied.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _replace_audit(
        self, answer: tuple[str, int, str], done: SiteReply, audit: str | None
    ) -> None:
        self._db.execute(f"DELETE FROM audit {OF} AND request = ?", answer)
        if audit is not None:
            row = (*answer, int(done.fault), audit)
            self._db.execute("INSERT OR REPLACE INTO audit VALUES (?, ?, ?, ?, ?)", row)

    def _make_room(self, experiment: str, round: int) -> None:
        """The round has no vote: one that is made anew takes the place of the earlier one."""
        place = (experiment, round)
        for table in ("sent", "sent_piece"):
            self._db.execute(f"DELETE FROM {table} {OF}", place)
        self._db.execute(f"DELETE FROM outbox {VOTE}", place)

    def _insert(
        self, experiment: str, round: int, kind: str, request: str, done: SiteReply
    ) -> None:
        adapter, place = done.adapter, (experiment, round)
        if adapter is not None and len(adapter) > PIECE_BYTES:
            for piece, start in enumerate(range(0, len(adapter), PIECE_BYTES)):
                part = (*place, piece, adapter[start : start + PIECE_BYTES])
                self._db.execute("INSERT INTO sent_piece VALUES (?, ?, ?, ?)", part)
            self._describe(place, hashlib.sha256(adapter).hexdigest(), len(adapter))
            adapter = None
        row = (*place, kind, request, done.stats.model_dump_json(), adapter)
        self._db.execute("INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?, ?)", row)
        if kind == TRAIN:
            self._db.execute(
                "INSERT OR REPLACE INTO steps_taken VALUES (?, ?, ?)", (*place, done.stats.steps)
            )

    def _describe(self, place: tuple[str, int], digest: str, length: int) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?)", (*place, digest, length)
        )

    def _replace_moments(self, experiment: str, round: int, moments: bytes) -> None:
        self._db.execute("DELETE FROM moments WHERE experiment = ?", (experiment,))
        for piece, start in enumerate(range(0, len(moments), PIECE_BYTES)):
            row = (experiment, piece, round, moments[start : start + PIECE_BYTES])
            self._db.execute("INSERT INTO moments VALUES (?, ?, ?, ?)", row)

    def moments(self, experiment: str, *, before: int, since: int = 1) -> bytes | None:
        """The optimiser's moments after the newest round, if that was before this one.

        A round that is done anew, from another request, has none: they would be its own.
        """
        rows = self._db.execute(
            "SELECT body FROM moments WHERE experiment = ? AND round >= ? AND round < ?"
            " ORDER BY piece",
            (experiment, since, before),
        ).fetchall()
        return b"".join(body for (body,) in rows) if rows else None

    def note_asked(self, experiment: str, kind: str, round: int, adapter: str) -> None:
        """It is on record, before the work begins, that this adapter was worked with."""
        with transaction(self._db):
            row = (experiment, kind, round, adapter)
            self._db.execute("INSERT OR IGNORE INTO asked VALUES (?, ?, ?, ?)", row)

    def tried(self, experiment: str, kind: str, round: int) -> set[str]:
        """The adapters that the round was worked on with."""
        query = "SELECT adapter FROM asked WHERE experiment = ? AND kind = ? AND round = ?"
        return {adapter for (adapter,) in self._db.execute(query, (experiment, kind, round))}

    def count_asked(self, experiment: str, kind: str) -> int:
        """How often a round was worked on, each adapter counted."""
        query = "SELECT count(*) FROM asked WHERE experiment = ? AND kind = ?"
        return int(self._db.execute(query, (experiment, kind)).fetchone()[0])

    def newest(self, experiment: str) -> int | None:
        """The highest round there is an answer of in the outbox."""
        newest = self._db.execute(
            "SELECT max(round) FROM outbox WHERE experiment = ?", (experiment,)
        ).fetchone()[0]
        return None if newest is None else int(newest)

    def finished(self, experiment: str, round: int, request: str) -> SiteReply | None:
        """The stored answer to exactly this request, if there is one that is still whole."""
        row = self._db.execute(
            f"SELECT stats, adapter, kind FROM outbox {OF} AND request = ?",
            (experiment, round, request),
        ).fetchone()
        if row is None:
            return None
        stats, adapter = parse_row(ClientStats, row[0], self._db.path), row[1]
        if adapter is None and row[2] == TRAIN and self._is_described(experiment, round):
            adapter = self._joined(experiment, round)
            if adapter is None:
                return None
        return SiteReply(stats, adapter, self._fault(experiment, round, request))

    def is_finished(self, experiment: str, round: int, request: str) -> bool:
        """Whether `finished` would find an answer; its adapter is not read."""
        row = self._db.execute(
            f"SELECT adapter IS NULL, kind FROM outbox {OF} AND request = ?",
            (experiment, round, request),
        ).fetchone()
        if row is None:
            return False
        if row == (1, TRAIN) and self._is_described(experiment, round):
            return next(self._pieces(experiment, round), None) is not None
        return True

    def audit(self, experiment: str, round: int, request: str) -> str | None:
        """What the audit of the answer to `request` found; None = it was not audited."""
        query = f"SELECT result FROM audit {OF} AND request = ?"
        row = self._db.execute(query, (experiment, round, request)).fetchone()
        return row[0] if row else None

    def last_audit(self, experiment: str, *, before: int) -> tuple[int, Fault] | None:
        """The newest audited round before that one, and the fault it was answered with."""
        row = self._db.execute(
            "SELECT round, fault FROM audit WHERE experiment = ? AND round < ?"
            " ORDER BY round DESC LIMIT 1",
            (experiment, before),
        ).fetchone()
        return (int(row[0]), Fault(row[1])) if row else None

    def _fault(self, experiment: str, round: int, request: str) -> Fault:
        query = f"SELECT fault FROM audit {OF} AND request = ?"
        row = self._db.execute(query, (experiment, round, request)).fetchone()
        return Fault(row[0]) if row else Fault.NONE

    def steps(self, experiment: str) -> int:
        """Optimiser steps of all votes of the experiment."""
        query = "SELECT sum(steps) FROM steps_taken WHERE experiment = ?"
        return int(self._db.execute(query, (experiment,)).fetchone()[0] or 0)

    def experiments(self) -> tuple[str, ...]:
        rows = self._db.execute("SELECT DISTINCT experiment FROM outbox ORDER BY 1")
        return tuple(name for (name,) in rows)

    def kept_votes(self, experiment: str) -> list[KeptVote]:
        """The answers of the experiment whose adapters are here, the newest first."""
        rows = self._db.execute(
            "SELECT round, length(adapter) FROM outbox WHERE experiment = ? AND adapter IS NOT NULL"
            " UNION ALL SELECT round, sum(length(body)) FROM sent_piece WHERE experiment = ?"
            " GROUP BY round ORDER BY 1 DESC",
            (experiment, experiment),
        )
        return [KeptVote(experiment, round, length) for round, length in rows]

    def keep_newest(self, keep: int) -> list[KeptVote]:
        """Of each experiment the newest `keep` votes have their adapters; those that lost them."""
        with transaction(self._db):
            old = self.votes_beyond(keep)
            for vote in old:
                self._drop(vote)
        return old

    def votes_beyond(self, keep: int) -> list[KeptVote]:
        """What `keep_newest` would take the adapters of."""
        return [vote for name in self.experiments() for vote in self._old_votes(name, keep)]

    def _old_votes(self, experiment: str, keep: int) -> list[KeptVote]:
        return self.kept_votes(experiment)[max(keep, LEAST_KEPT) :] if keep else []

    def _drop(self, vote: KeptVote) -> int:
        """Its adapter is gone; digest and length stay."""
        place = (vote.experiment, vote.round)
        (whole,) = self._db.execute(f"SELECT adapter FROM outbox {VOTE}", place).fetchone()
        if whole is not None:
            self._describe(place, hashlib.sha256(whole).hexdigest(), len(whole))
        self._db.execute(f"UPDATE outbox SET adapter = NULL {VOTE}", place)
        self._db.execute(f"DELETE FROM sent_piece {OF}", place)
        return 1

    def _is_described(self, experiment: str, round: int) -> bool:
        return bool(self._db.execute(f"SELECT 1 FROM sent {OF}", (experiment, round)).fetchone())

    def _joined(self, experiment: str, round: int) -> bytes | None:
        # Not b"".join, which would hold every piece beside the whole.
        whole = BytesIO()
        for piece in self._pieces(experiment, round):
            whole.write(piece)
        return whole.getvalue() or None

    def _pieces(self, experiment: str, round: int) -> Iterator[bytes]:
        query = f"SELECT body FROM sent_piece {OF} ORDER BY piece"
        for (body,) in self._db.execute(query, (experiment, round)):
            yield body
