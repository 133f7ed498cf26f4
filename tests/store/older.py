"""A buffer's file as an earlier version of its schema had it."""

import sqlite3
from contextlib import closing
from pathlib import Path


def made_older(path: Path, version: int, *lacking: str) -> None:
    """The file says that it has this schema, and has not the tables `lacking`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in lacking:
            db.execute(f"DROP TABLE {table}")
        db.execute(f"PRAGMA user_version = {version}")
