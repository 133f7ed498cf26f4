"""What was exported from a buffer: where to, when, and which tasks it was about."""

from collections.abc import Collection

from fedse.store.buffer_schema import transaction
from fedse.store.database import Database
from fedse.store.sealing import Seal
from fedse.types import Record


class ExportedFile(Record):
    """A file or folder that holds episodes of a buffer, as far as the buffer knows."""

    path: str
    made: float
    """Seconds since 1970."""
    episodes: int


class Exports:
    """The record of exports in one client's open file."""

    def __init__(self, db: Database, seal: Seal) -> None:
        self._db, self._seal = db, seal

    def note(self, made: ExportedFile, tasks: Collection[tuple[str, str]]) -> None:
        """The export is on record, with the environments and ids of its tasks."""
        with transaction(self._db):
            query = "SELECT coalesce(max(number), 0) + 1 FROM exported"
            (number,) = self._db.execute(query).fetchone()
            body = self._seal.close(made.model_dump_json(), ("exported", number))
            self._db.execute("INSERT INTO exported VALUES (?, ?)", (number, body))
            self._db.executemany(
                "INSERT OR IGNORE INTO exported_task VALUES (?, ?, ?)",
                [(number, env, self._seal.hide(task)) for env, task in sorted(tasks)],
            )

    def all(self) -> list[ExportedFile]:
        """Every export on record, the oldest first."""
        rows = self._db.execute("SELECT number, body FROM exported ORDER BY number")
        return [self._read(number, body) for number, body in rows]

    def _read(self, number: int, body: str | bytes) -> ExportedFile:
        text = self._seal.open(body, ("exported", number))
        return ExportedFile.model_validate_json(text)

    def about(self, tasks: Collection[tuple[str, str]]) -> list[ExportedFile]:
        """The exports that hold an episode of one of these tasks."""
        found: set[int] = set()
        for env, task in tasks:
            query = "SELECT number FROM exported_task WHERE env = ? AND task = ?"
            found.update(n for (n,) in self._db.execute(query, (env, self._seal.hide(task))))
        rows = self._db.execute("SELECT number, body FROM exported ORDER BY number")
        return [self._read(number, body) for number, body in rows if number in found]
