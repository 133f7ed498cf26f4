"""The SQLite file behind a service: its tables, and how it is opened.

Only its owner can read it, a committed write survives kill -9 and a power cut, and what was deleted
is overwritten. `session` is hidden by the file's seal, and a `body` is closed by it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedse.errors import StoreError, boundary
from fedse.store.database import Database, open_durable

FILE = "service.db"
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE session (
  session TEXT PRIMARY KEY,
  first REAL NOT NULL,
  last REAL NOT NULL,
  person TEXT,
  application TEXT NOT NULL,
  arm TEXT NOT NULL,
  adapter TEXT NOT NULL,
  share REAL NOT NULL,
  learn INTEGER NOT NULL,
  held_out INTEGER NOT NULL,
  ended REAL,
  turns INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX session_person ON session (person);
CREATE INDEX session_last ON session (last);
CREATE TABLE turn (
  session TEXT NOT NULL,
  number INTEGER NOT NULL,
  inference TEXT NOT NULL UNIQUE,
  at REAL NOT NULL,
  arm TEXT NOT NULL,
  adapter TEXT NOT NULL,
  template TEXT NOT NULL,
  finish TEXT NOT NULL,
  invalid_calls INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  error TEXT NOT NULL,
  seconds REAL NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  sampled_tokens INTEGER NOT NULL,
  parent INTEGER,
  mark BLOB,
  redacted INTEGER NOT NULL,
  learned INTEGER NOT NULL,
  body ANY,
  PRIMARY KEY (session, number)
) STRICT;
CREATE TABLE feedback (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  key TEXT UNIQUE,
  content TEXT NOT NULL,
  session TEXT NOT NULL,
  inference TEXT,
  metric TEXT NOT NULL,
  at REAL NOT NULL,
  body ANY NOT NULL
) STRICT;
CREATE INDEX feedback_session ON feedback (session);
CREATE TABLE harvest (
  night TEXT NOT NULL,
  number INTEGER NOT NULL,
  session TEXT NOT NULL,
  task TEXT NOT NULL,
  label INTEGER,
  at REAL NOT NULL,
  PRIMARY KEY (night, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX harvest_session ON harvest (session);
CREATE INDEX harvest_task ON harvest (task);
CREATE TABLE forgotten (
  person TEXT PRIMARY KEY,
  at REAL NOT NULL
) STRICT;
CREATE TABLE sealed (
  key_id TEXT PRIMARY KEY
) STRICT;
CREATE TABLE unswept (
  reason TEXT PRIMARY KEY
) STRICT;
"""
STATEMENTS = [statement for statement in SCHEMA.split(";") if statement.strip()]
"""One by one: a script would end the transaction it is run in."""


def open_file(path: Path) -> Database:
    """The file exists with all its tables; one of a newer schema is refused."""
    db = open_durable(path)
    if _version(db) == SCHEMA_VERSION:
        return db
    with transaction(db):
        version = _version(db)
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{path} has schema {version}, this version reads up to {SCHEMA_VERSION}",
                hint="upgrade fed-se-serve",
            )
        if not version:  # else another process was faster
            for statement in STATEMENTS:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return db


def _version(db: Database) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """All that is written inside is durable afterwards, or none of it."""
    with boundary(StoreError, f"write {db.path}"), db:
        db.execute("BEGIN IMMEDIATE")
        yield
