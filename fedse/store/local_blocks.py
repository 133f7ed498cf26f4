"""The blocks of the adapter that never leave a site, in the buffer's file: those of its last votes.

They are stored with the vote they were trained with, in one transaction, and those of the vote
before it stay: a round that is worked on again begins with what it began with.
"""

from collections.abc import Mapping

from fedse.store.database import Database

TABLE = (
    "CREATE TABLE IF NOT EXISTS local_block (experiment TEXT NOT NULL, round INTEGER NOT NULL,"
    " block TEXT NOT NULL, piece INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY (experiment, round, block, piece)) STRICT"
)
KEPT = 2
"""Rounds: the newest, and the one before it, from which the newest was made."""
PIECE_BYTES = 1 << 28
"""Of a block in one row; SQLite allows 10^9."""


class LocalBlocks:
    """Those of one client, in its open file."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def keep(self, experiment: str, round: int, blocks: Mapping[str, bytes]) -> None:
        """They are those after this round; to be called within a transaction."""
        place = (experiment, round)
        self._db.execute("DELETE FROM local_block WHERE experiment = ? AND round = ?", place)
        for block, body in blocks.items():
            for piece, start in enumerate(range(0, len(body), PIECE_BYTES)):
                row = (*place, block, piece, body[start : start + PIECE_BYTES])
                self._db.execute("INSERT INTO local_block VALUES (?, ?, ?, ?, ?)", row)
        self._db.execute(
            "DELETE FROM local_block WHERE experiment = ? AND round NOT IN (SELECT DISTINCT round"
            " FROM local_block WHERE experiment = ? ORDER BY round DESC LIMIT ?)",
            (experiment, experiment, KEPT),
        )

    def newest(
        self, experiment: str, *, before: int | None = None, since: int = 1
    ) -> dict[str, bytes]:
        """Those after the newest round from `since` on, and before that one; empty = none."""
        limit = 2**62 if before is None else before
        rows = self._db.execute(
            "SELECT block, body FROM local_block WHERE experiment = ? AND round = (SELECT"
            " max(round) FROM local_block WHERE experiment = ? AND round >= ? AND round < ?)"
            " ORDER BY block, piece",
            (experiment, experiment, since, limit),
        )
        found: dict[str, bytes] = {}
        for block, body in rows:
            found[block] = found.get(block, b"") + body
        return found
