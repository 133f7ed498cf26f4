"""The SQLite file behind a client's buffer: its tables, how it is opened and written.

Only its owner can read it, a committed write survives kill -9 and a power cut, and what was deleted
is overwritten. The column `subject` of a trajectory is reserved for the person or case it is about,
so that all records of one can be found and deleted; nothing writes it yet, and it is always NULL.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedse.errors import StoreError, boundary

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS trajectory (
  id INTEGER PRIMARY KEY,
  content TEXT NOT NULL UNIQUE,
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  env TEXT NOT NULL,
  task TEXT NOT NULL,
  outcome TEXT NOT NULL,
  policy TEXT NOT NULL,
  subject TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS trajectory_subject ON trajectory (subject);
CREATE INDEX IF NOT EXISTS trajectory_round ON trajectory (experiment, round);
CREATE TABLE IF NOT EXISTS sighting (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (experiment, round, content)
) STRICT;
CREATE TABLE IF NOT EXISTS played (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  split TEXT NOT NULL,
  position INTEGER NOT NULL,
  env TEXT NOT NULL,
  task TEXT NOT NULL,
  seed INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  body TEXT,
  PRIMARY KEY (experiment, round, split, position)
) STRICT;
CREATE TABLE IF NOT EXISTS part (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  split TEXT NOT NULL,
  start INTEGER NOT NULL,
  identity TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (experiment, round, split, start)
) STRICT;
CREATE TABLE IF NOT EXISTS outbox (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  request TEXT NOT NULL,
  stats TEXT NOT NULL,
  adapter BLOB,
  PRIMARY KEY (experiment, round)
) STRICT;
CREATE TABLE IF NOT EXISTS moments (
  experiment TEXT NOT NULL,
  piece INTEGER NOT NULL,
  round INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (experiment, piece)
) STRICT;
"""


def open_file(path: Path) -> sqlite3.Connection:
    """The file exists with all its tables; one of a newer schema is refused."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # SQLite gives its WAL the mode of the database file, so this covers both.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    for pragma in (
        "page_size = 16384",  # two 2 KB rows waste half of a default 4 KB page
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
    ):
        db.execute(f"PRAGMA {pragma}")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"buffer {path} has schema {version}, this version reads up to {SCHEMA_VERSION}",
            hint="upgrade fedse",
        )
    db.executescript(SCHEMA)
    if version != SCHEMA_VERSION:  # setting it is a write even if nothing changes
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside is durable afterwards, or none of it."""
    with boundary(StoreError, "buffer write"), db:
        db.execute("BEGIN IMMEDIATE")
        yield
