"""The SQLite file behind a client's buffer: its tables, how it is opened and written.

Only its owner can read it, a committed write survives kill -9 and a power cut, and what was deleted
is overwritten. The column `subject` names the person or case that a task is about, so that all of
one can be found and forgotten. It is personal data itself. What stands in it, in `content`, `task`
and `identity`, and in a `body`, is what the file's seal makes of it (fedse.store.sealing).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedse.errors import StoreError, boundary
from fedse.store.database import Database, open_durable
from fedse.store.kept_copy import keep_copy
from fedse.store.local_blocks import TABLE

SCHEMA_VERSION = 5
SCHEMA = """
CREATE TABLE IF NOT EXISTS trajectory (
  id INTEGER PRIMARY KEY,
  content TEXT NOT NULL UNIQUE,
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  env TEXT NOT NULL,
  task TEXT NOT NULL,
  split TEXT NOT NULL DEFAULT 'train',
  seed INTEGER NOT NULL DEFAULT 0,
  outcome TEXT NOT NULL,
  policy TEXT NOT NULL,
  subject TEXT,
  body ANY NOT NULL
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
  subject TEXT,
  body ANY,
  PRIMARY KEY (experiment, round, split, position)
) STRICT;
CREATE INDEX IF NOT EXISTS played_subject ON played (subject);
CREATE TABLE IF NOT EXISTS part (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  split TEXT NOT NULL,
  start INTEGER NOT NULL,
  identity TEXT NOT NULL,
  body ANY NOT NULL,
  PRIMARY KEY (experiment, round, split, start)
) STRICT;
CREATE TABLE IF NOT EXISTS outbox (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  kind TEXT NOT NULL,
  request TEXT NOT NULL,
  stats TEXT NOT NULL,
  adapter BLOB,
  PRIMARY KEY (experiment, round, kind, request)
) STRICT;
CREATE TABLE IF NOT EXISTS steps_taken (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  PRIMARY KEY (experiment, round)
) STRICT;
CREATE TABLE IF NOT EXISTS sent (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  digest TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (experiment, round)
) STRICT;
CREATE TABLE IF NOT EXISTS sent_piece (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  piece INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (experiment, round, piece)
) STRICT;
CREATE TABLE IF NOT EXISTS asked (
  experiment TEXT NOT NULL,
  kind TEXT NOT NULL,
  round INTEGER NOT NULL,
  adapter TEXT NOT NULL,
  PRIMARY KEY (experiment, kind, round, adapter)
) STRICT;
CREATE TABLE IF NOT EXISTS moments (
  experiment TEXT NOT NULL,
  piece INTEGER NOT NULL,
  round INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (experiment, piece)
) STRICT;
CREATE TABLE IF NOT EXISTS audit (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  request TEXT NOT NULL,
  fault INTEGER NOT NULL,
  result TEXT NOT NULL,
  PRIMARY KEY (experiment, round)
) STRICT;
CREATE TABLE IF NOT EXISTS secure_sum (
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  state TEXT,
  encoded BLOB,
  PRIMARY KEY (experiment, round)
) STRICT;
CREATE TABLE IF NOT EXISTS privacy (
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL UNIQUE,
  experiment TEXT NOT NULL,
  round INTEGER NOT NULL,
  unit TEXT NOT NULL,
  rate REAL NOT NULL,
  noise REAL NOT NULL,
  steps INTEGER NOT NULL,
  secret BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS sealed (
  key_id TEXT PRIMARY KEY
) STRICT;
CREATE TABLE IF NOT EXISTS unswept (
  reason TEXT PRIMARY KEY
) STRICT;
CREATE TABLE IF NOT EXISTS erasure (
  mark TEXT PRIMARY KEY,
  body ANY NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS exported (
  number INTEGER PRIMARY KEY,
  body ANY NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS exported_task (
  number INTEGER NOT NULL,
  env TEXT NOT NULL,
  task TEXT NOT NULL,
  PRIMARY KEY (number, env, task)
) STRICT;
"""
ADDED = (
    "CREATE INDEX IF NOT EXISTS outbox_kept ON outbox (experiment, round)"
    " WHERE adapter IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS round_time (experiment TEXT NOT NULL, round INTEGER NOT NULL,"
    " time REAL NOT NULL, PRIMARY KEY (experiment, round)) STRICT",
    "CREATE TABLE IF NOT EXISTS removed (mark TEXT PRIMARY KEY, body ANY NOT NULL) STRICT",
    TABLE,
)
"""What older versions of the same schema lack and can do without: an index of the few answers that
still have their adapter, the ages of rounds, what is kept of persons of too old episodes, and the
site's own blocks of the adapter."""
STATEMENTS = [statement for statement in SCHEMA.split(";") if statement.strip()]
"""One by one: a script would end the transaction it is run in."""
REBUILT = {"trajectory": 3, "played": 3, "part": 3, "outbox": 5}
"""Tables that had other columns before this schema."""
# A text that was changed on the disk is found when it is read, not here.
READ = "coalesce(CASE WHEN json_valid(body) THEN json_extract(body, '$.{}') END, {})"
FILLED = {
    "trajectory": "id, content, experiment, round, env, task,"
    f" {READ.format('task.split', repr('train'))}, {READ.format('seed', 0)}, outcome, policy,"
    " subject, body",
    "played": "experiment, round, split, position, env, task, seed, outcome, NULL, body",
    "part": "*",
    # Before schema 5 a round had one answer: what has an adapter, or had one, is a vote.
    "outbox": "experiment, round, iif(adapter IS NULL AND coalesce(CASE WHEN json_valid(stats) THEN"
    " json_extract(stats, '$.steps') END, 0) = 0 AND (experiment, round) NOT IN"
    " (SELECT experiment, round FROM sent), 'evaluate', 'train'), request, stats, adapter",
}
"""What a row of an older schema is in this one."""
FILL_STEPS = (
    "INSERT OR IGNORE INTO steps_taken"
    " SELECT experiment, round, coalesce(json_extract(stats, '$.steps'), 0) FROM outbox"
    " WHERE kind = 'train' AND json_valid(stats)"
)
"""Of answers that schema 3 has."""
FREE_IDENTITIES = (
    "UPDATE privacy SET identity = identity || ' answered ' || id"
    " WHERE secret IS NULL AND noise > 0 AND identity NOT LIKE '% answered %'"
)
"""As the journal does with every charge since schema 5, once its fit is answered."""


def open_file(path: Path) -> Database:
    """The file exists with all its tables; one of a newer schema is refused."""
    db = open_durable(path)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"buffer {path} has schema {version}, this version reads up to {SCHEMA_VERSION}",
            hint="upgrade fedse",
        )
    if version != SCHEMA_VERSION:  # setting it is a write even if nothing changes
        with transaction(db):
            _bring_up_to_date(db)
    for statement in ADDED:
        db.execute(statement)
    return db


def _bring_up_to_date(db: Database) -> None:
    """Every table is as in SCHEMA, with the rows it had; all or nothing, as this is one write.

    A file that had tables has a copy.
    """
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return  # another process was faster
    if version:
        keep_copy(db, version)
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    old = [table for table, since in REBUILT.items() if table in there and version < since]
    for table in old:
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for index in ("trajectory_subject", "trajectory_round") if "trajectory" in old else ():
        # They went with the renamed table and would stand in the way of the new ones.
        db.execute(f"DROP INDEX IF EXISTS {index}")
    for statement in STATEMENTS:
        db.execute(statement)
    for table in old:
        db.execute(f"INSERT INTO {table} SELECT {FILLED[table]} FROM old_{table}")
        db.execute(f"DROP TABLE old_{table}")
    db.execute(FILL_STEPS)
    db.execute(FREE_IDENTITIES)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside is durable afterwards, or none of it."""
    with boundary(StoreError, "buffer write"), db:
        db.execute("BEGIN IMMEDIATE")
        yield
