"""SQLite files that name themselves when they are damaged, and say how to get on."""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fedse.errors import StoreError
from fedse.types import Record

DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR_SHORT_READ,
}
# SQLite's own number is in the lowest byte, what exactly happened in those above it.
PRIMARY = 0xFF

R = TypeVar("R", bound=Record)
_MAKING = threading.Lock()


class DamageNamingCursor(sqlite3.Cursor):
    """A cursor whose errors about damage name the file; all others are as SQLite raises them."""

    def execute(self, *given: Any) -> "DamageNamingCursor":
        with _naming(self):
            super().execute(*given)
        return self

    def executemany(self, *given: Any) -> "DamageNamingCursor":
        with _naming(self):
            super().executemany(*given)
        return self

    def executescript(self, script: str) -> "DamageNamingCursor":
        with _naming(self):
            super().executescript(script)
        return self

    def fetchone(self) -> Any:
        with _naming(self):
            return super().fetchone()

    def fetchall(self) -> list[Any]:
        with _naming(self):
            return super().fetchall()

    def __next__(self) -> Any:
        with _naming(self):
            return super().__next__()


class Database(sqlite3.Connection):
    """An open file; `open_database` opens it."""

    path: Path

    # Python's own three ask for a plain cursor, whatever `cursor` returns.
    def execute(self, *given: Any) -> DamageNamingCursor:
        return self.cursor(DamageNamingCursor).execute(*given)

    def executemany(self, *given: Any) -> DamageNamingCursor:
        return self.cursor(DamageNamingCursor).executemany(*given)

    def executescript(self, script: str) -> DamageNamingCursor:
        return self.cursor(DamageNamingCursor).executescript(script)


def open_database(path: Path, *, read_only: bool = False) -> Database:
    """The file at `path`, whose damage is noticed when it is met."""
    address = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    db = sqlite3.connect(address, isolation_level=None, timeout=30.0, factory=Database, uri=True)
    db.path = path
    return db


def open_durable(path: Path) -> Database:
    """The file at `path`, for its owner alone; what is committed to it outlives a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Closing a descriptor of a file drops every lock that this process has on it, also those of its
    # connections. Another process would then take itself for the last one and delete the log that
    # they still write to. So a descriptor is made only while there can be no connection.
    with _MAKING, suppress(FileExistsError):
        # SQLite gives its WAL the mode of the database file, so this covers both.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = open_database(path)
    for pragma in (
        "page_size = 16384",  # rows have 2 KB and more, and waste half of a default page
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
    ):
        db.execute(f"PRAGMA {pragma}")
    return db


def copy_database(source: Path, copy: Path) -> None:
    """`copy` is what the file was at one moment, also while it is written to, and has no log."""
    live, still = open_database(source, read_only=True), sqlite3.connect(copy)
    with closing(live), closing(still):
        live.backup(still)


def parse_row(kind: type[R], body: str | bytes, path: Path) -> R:
    """What a row holds; one that was changed on the disk is damage."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise damaged(path, f"a {kind.__name__} cannot be read") from error


def damaged(path: Path, reason: object) -> StoreError:
    return StoreError(
        f"{path} is damaged: {reason}",
        hint=f"put it back from a backup, or save what can be read: sqlite3 {path} .recover",
    )


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own error about a text
        return str(error).startswith("Could not decode to UTF-8")
    return code in DAMAGE or code & PRIMARY in DAMAGE


def is_sound(path: Path) -> bool:
    """Whether the structure of the whole file is as SQLite wrote it."""
    try:
        db = open_database(path)
        try:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        finally:
            db.close()
    except StoreError:
        return False


def set_aside(database: Path) -> Path:
    """The damaged file and what SQLite keeps beside it have other names; that of the file."""
    numbered = (database.with_name(f"{database.name}.damaged-{i}") for i in count(1))
    aside = next(path for path in numbered if not path.exists())
    for end in ("", "-wal", "-shm"):
        file = database.with_name(f"{database.name}{end}")
        if file.exists():
            file.rename(aside.with_name(f"{aside.name}{end}"))
    return aside


@contextmanager
def _naming(cursor: DamageNamingCursor) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        connection: Any = cursor.connection
        raise damaged(connection.path, error) from error


def names_of(db: sqlite3.Connection, table: str) -> Iterable[str]:
    """The columns of a table, in their order."""
    return [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
