"""A client's finished work, in the buffer's file: a round is answered again, not done again.

With the answer of the newest round stand the optimiser's moments after it.
"""

from sqlite3 import Connection

from fedse.protocol import SiteReply
from fedse.store.buffer_schema import transaction
from fedse.types import ClientStats

PIECE_BYTES = 1 << 28
"""Of the moments in one row; SQLite allows 10^9, and they are twice as long as an adapter."""


class Outbox:
    """The answers of one client in its open file."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def finish(
        self,
        experiment: str,
        round: int,
        request: str,
        done: SiteReply,
        *,
        moments: bytes | None = None,
    ) -> None:
        """The answer to `request` is durable before anybody learns of it; no part is left.

        With it the optimiser's moments, if there are any, take the place of the earlier ones.
        """
        row = (experiment, round, request, done.stats.model_dump_json(), done.adapter)
        with transaction(self._db):
            self._db.execute("INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?)", row)
            gone = self._db.execute("DELETE FROM part").rowcount
            if moments is not None:
                self._replace_moments(experiment, round, moments)
        if gone:
            # What is overwritten in the database remains in its log until that is emptied.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _replace_moments(self, experiment: str, round: int, moments: bytes) -> None:
        self._db.execute("DELETE FROM moments WHERE experiment = ?", (experiment,))
        for piece, start in enumerate(range(0, len(moments), PIECE_BYTES)):
            row = (experiment, piece, round, moments[start : start + PIECE_BYTES])
            self._db.execute("INSERT INTO moments VALUES (?, ?, ?, ?)", row)

    def moments(self, experiment: str, *, before: int) -> bytes | None:
        """The optimiser's moments after the newest round, if that was before this one.

        A round that is done anew, from another request, has none: they would be its own.
        """
        rows = self._db.execute(
            "SELECT body FROM moments WHERE experiment = ? AND round < ? ORDER BY piece",
            (experiment, before),
        ).fetchall()
        return b"".join(body for (body,) in rows) if rows else None

    def newest(self, experiment: str) -> int | None:
        """The highest round there is an answer of in the outbox."""
        newest = self._db.execute(
            "SELECT max(round) FROM outbox WHERE experiment = ?", (experiment,)
        ).fetchone()[0]
        return None if newest is None else int(newest)

    def finished(self, experiment: str, round: int, request: str) -> SiteReply | None:
        """The stored answer to exactly this request, if there is one."""
        row = self._db.execute(
            "SELECT stats, adapter FROM outbox WHERE experiment = ? AND round = ? AND request = ?",
            (experiment, round, request),
        ).fetchone()
        if row is None:
            return None
        return SiteReply(ClientStats.model_validate_json(row[0]), row[1])

    def vote(self, experiment: str, *, before: int) -> bytes | None:
        """The adapter in the newest answer that has one, of the rounds before that one."""
        row = self._db.execute(
            "SELECT adapter FROM outbox WHERE experiment = ? AND round < ? AND adapter NOT NULL"
            " ORDER BY round DESC LIMIT 1",
            (experiment, before),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def steps(self, experiment: str) -> int:
        """Optimiser steps in all answers of the outbox."""
        query = "SELECT sum(json_extract(stats, '$.steps')) FROM outbox WHERE experiment = ?"
        return int(self._db.execute(query, (experiment,)).fetchone()[0] or 0)
