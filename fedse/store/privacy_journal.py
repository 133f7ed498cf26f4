"""What a site has told about its units, in the buffer's file: over all experiments, and for ever.

A fit is charged before it begins, together with the secret that its noise is made of. If it is
interrupted, the same fit is made again with the same secret and costs nothing more; any other fit
is charged anew. So a crash may waste budget and never forgets it.
"""

from fedse.privacy.accountant import Charge
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database

COLUMNS = "experiment, round, unit, rate, noise, steps"
UNPROTECTED = (
    f"INSERT OR IGNORE INTO privacy (identity, {COLUMNS})"
    " SELECT 'without noise: ' || experiment || ' ' || round,"
    " experiment, round, 'episode', 1.0, 0.0, json_extract(stats, '$.steps')"
    " FROM outbox WHERE kind = 'train' AND json_extract(stats, '$.steps') > 0"
    " AND (experiment, round)"
)
CHARGED = "(SELECT experiment, round FROM privacy)"


class PrivacyJournal:
    """The charges of one client in its open file."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def charge(self, identity: str, charge: Charge, secret: bytes) -> None:
        """The charge is durable, and so is the secret, until the answer is."""
        with transaction(self._db):
            self._db.execute(
                f"INSERT INTO privacy (identity, {COLUMNS}, secret)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (identity, *charge, secret),
            )

    def secret(self, identity: str) -> bytes | None:
        """Of exactly this fit, if it was charged and not answered yet."""
        query = "SELECT secret FROM privacy WHERE identity = ?"
        row = self._db.execute(query, (identity,)).fetchone()
        return row[0] if row else None

    def is_under_way(self, experiment: str, round: int) -> bool:
        """Whether a fit of this round was charged and not answered yet."""
        query = "SELECT 1 FROM privacy WHERE experiment = ? AND round = ? AND secret NOT NULL"
        return self._db.execute(query, (experiment, round)).fetchone() is not None

    def forget_secrets(self, experiment: str, *, up_to: int) -> int:
        """Of rounds up to that one no secret is left: nobody can take the noise away again.

        Inside the transaction that stores the answer. How many there were.
        """
        # The identity is free again: the same fit made anew has its own charge and noise.
        return self._db.execute(
            "UPDATE privacy SET secret = NULL, identity = identity || ' answered ' || id"
            " WHERE experiment = ? AND round <= ? AND secret NOT NULL",
            (experiment, up_to),
        ).rowcount

    def note_unprotected(self) -> None:
        """Answers that were trained without a charge are on record as made without noise."""
        with transaction(self._db):
            self._db.execute(f"{UNPROTECTED} NOT IN {CHARGED}")

    def note_replaced(self, experiment: str, round: int) -> None:
        """As `note_unprotected`, of one answer; inside the transaction that replaces it."""
        query = f"{UNPROTECTED} NOT IN {CHARGED} AND experiment = ? AND round = ?"
        self._db.execute(query, (experiment, round))

    def note_without_noise(self, experiment: str, round: int) -> None:
        """The answer that was just stored is not covered by an earlier charge of its round.

        Where the round has none, `note_unprotected` will find it.
        """
        query = f"{UNPROTECTED} IN {CHARGED} AND experiment = ? AND round = ?"
        self._db.execute(query, (experiment, round))

    def charges(self) -> list[Charge]:
        """All of them, the oldest first."""
        rows = self._db.execute(f"SELECT {COLUMNS} FROM privacy ORDER BY id")
        return [Charge._make(row) for row in rows]
