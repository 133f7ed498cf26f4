"""No byte of what was deleted or replaced is left in a buffer's files.

SQLite overwrites what is deleted (secure_delete), but its log has the bytes until that is emptied.
A deletion that promises more is noted in the same transaction; whoever opens the file next, after a
crash, finishes the work.
"""

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedse.errors import StoreError
from fedse.store.database import Database
from fedse.store.kept_copy import kept_copies, remove_copies

WINDOW = 48
"""Bytes of a removed text that are looked for at once."""
EVERY = 2048
"""Bytes from one window to the next; at least every page that held the text is looked at."""


def note_unswept(db: Database, reason: str) -> None:
    """The files will be swept, also after a crash; inside the transaction that deletes."""
    db.execute("INSERT OR IGNORE INTO unswept VALUES (?)", (reason,))


def empty_log(db: Database) -> bool:
    """The log of the database has no byte; False = another process reads the file."""
    (busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def sweep(db: Database) -> None:
    """The files hold what the tables hold, and nothing that they held before."""
    if not _swept(db):
        raise StoreError(
            f"{db.path} is being read by another process, so what was removed is still in its log",
            hint=f"end what reads it (lsof {db.path}), then give the command again",
        )


def is_unswept(db: Database) -> bool:
    """Whether a sweep was cut short, and is still to be done."""
    return db.execute("SELECT 1 FROM unswept").fetchone() is not None


def finish_sweep(db: Database) -> None:
    """A sweep that was cut short is done; if another process reads the file, by the next start."""
    if is_unswept(db):
        _swept(db)


def _swept(db: Database) -> bool:
    remove_copies(db.path)
    if not empty_log(db):
        return False
    db.execute("VACUUM")
    if not empty_log(db):
        return False
    db.execute("DELETE FROM unswept")
    return empty_log(db)


def windows_of(body: str | bytes) -> Iterator[bytes]:
    """Pieces of a stored text by which what is left of it is recognised."""
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    for start in range(0, len(data), EVERY):
        yield data[start : start + WINDOW]


def remnants(database: Path, windows: Iterable[bytes]) -> list[bytes]:
    """Those of `windows` that occur in the database's files or a copy of it."""
    ends = ("", "-wal", "-shm")
    files = [database.with_name(database.name + end) for end in ends] + kept_copies(database)
    wanted = {window for window in windows if len(window) == WINDOW}
    found: set[bytes] = set()
    for file in files:
        if file.is_file() and file.stat().st_size:
            with (
                file.open("rb") as opened,
                mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                found |= {window for window in wanted - found if data.find(window) >= 0}
    return sorted(found)
