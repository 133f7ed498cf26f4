"""A client's part in secure sums, in the buffer's file: nothing is answered in two ways.

Of the newest round the secrets of the sum and the encoded update are kept, so that a stage is
answered again in the same way. Those of earlier rounds are overwritten; that there was a sum stays.
"""

from sqlite3 import Connection

from fedse.store.buffer_schema import transaction

OF = "WHERE experiment = ? AND round = ?"


class Sums:
    """The secure sums of one client in its open file."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def begin(self, experiment: str, round: int, state: str, encoded: bytes) -> None:
        """The sum of this round is on record, and the secrets of all earlier ones are gone."""
        with transaction(self._db):
            row = (experiment, round, state, encoded)
            self._db.execute("INSERT INTO secure_sum VALUES (?, ?, ?, ?)", row)
            gone = self._db.execute(
                "UPDATE secure_sum SET state = NULL, encoded = NULL"
                " WHERE experiment = ? AND round < ? AND state NOT NULL",
                (experiment, round),
            ).rowcount
        if gone:
            # What is overwritten in the database remains in its log until that is emptied.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def advance(self, experiment: str, round: int, state: str) -> None:
        """The state is durable, so the answer that follows from it may leave."""
        with transaction(self._db):
            self._db.execute(f"UPDATE secure_sum SET state = ? {OF}", (state, experiment, round))

    def is_known(self, experiment: str, round: int) -> bool:
        """Whether there was a sum in this round, even if its secrets are gone."""
        row = self._db.execute(f"SELECT 1 FROM secure_sum {OF}", (experiment, round)).fetchone()
        return row is not None

    def state(self, experiment: str, round: int) -> str | None:
        row = self._db.execute(f"SELECT state FROM secure_sum {OF}", (experiment, round)).fetchone()
        return row[0] if row else None

    def encoded(self, experiment: str, round: int) -> bytes | None:
        """The update of the round as whole numbers, without masks; it never leaves the client."""
        query = f"SELECT encoded FROM secure_sum {OF}"
        row = self._db.execute(query, (experiment, round)).fetchone()
        return row[0] if row else None
