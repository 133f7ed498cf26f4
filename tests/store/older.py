"""A buffer's file as an earlier version of its schema had it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

REBUILT = {
    "trajectory": (
        3,
        "id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE, experiment TEXT NOT NULL, round"
        " INTEGER NOT NULL, env TEXT NOT NULL, task TEXT NOT NULL, outcome TEXT NOT NULL, policy"
        " TEXT NOT NULL, subject TEXT, body TEXT NOT NULL",
        "id, content, experiment, round, env, task, outcome, policy, NULL, body",
    ),
    "played": (
        3,
        "experiment TEXT NOT NULL, round INTEGER NOT NULL, split TEXT NOT NULL, position INTEGER"
        " NOT NULL, env TEXT NOT NULL, task TEXT NOT NULL, seed INTEGER NOT NULL, outcome TEXT NOT"
        " NULL, body TEXT, PRIMARY KEY (experiment, round, split, position)",
        "experiment, round, split, position, env, task, seed, outcome, body",
    ),
    "part": (
        3,
        "experiment TEXT NOT NULL, round INTEGER NOT NULL, split TEXT NOT NULL, start INTEGER NOT"
        " NULL, identity TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (experiment, round, split,"
        " start)",
        "*",
    ),
    "outbox": (
        5,
        "experiment TEXT NOT NULL, round INTEGER NOT NULL, request TEXT NOT NULL, stats TEXT NOT"
        " NULL, adapter BLOB, PRIMARY KEY (experiment, round)",
        "experiment, round, request, stats, adapter",
    ),
}
"""By table: the schema that changed it, the columns before, and what they are of the present."""
SINCE = {
    2: ("sent", "sent_piece"),
    3: (
        *("asked", "audit", "erasure", "exported", "exported_task"),
        *("privacy", "sealed", "secure_sum", "unswept"),
    ),
    4: ("steps_taken",),
    6: ("round_time", "removed"),
}
"""Tables that came with a schema; those of 6 are made in every file that lacks them."""


def made_older(path: Path, version: int, *lacking: str) -> None:
    """The file says that it has this schema, and has not the tables `lacking`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in lacking:
            db.execute(f"DROP TABLE {table}")
        db.execute(f"PRAGMA user_version = {version}")


def as_schema(version: int, new: Path, old: Path) -> Path:
    """`old` is what a program with that schema would have stored of what is in `new`."""
    shutil.copy(new, old)
    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        for table, (since, columns, filled) in REBUILT.items():
            if version < since:
                db.execute(f"ALTER TABLE {table} RENAME TO newer")
                db.execute(f"CREATE TABLE {table} ({columns}) STRICT")
                db.execute(f"INSERT INTO {table} SELECT {filled} FROM newer")
                db.execute("DROP TABLE newer")
        if version < REBUILT["trajectory"][0]:
            db.execute("CREATE INDEX trajectory_subject ON trajectory (subject)")
            db.execute("CREATE INDEX trajectory_round ON trajectory (experiment, round)")
    made_older(old, version, *(t for since, ts in SINCE.items() if version < since for t in ts))
    return old
