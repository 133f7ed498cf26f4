"""A run that an older release began, whose buffers have an older schema, and that this one ends."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.store.buffer import Buffer
from fedse.store.gc import client_databases
from fedse.store.kept_copy import kept_copies
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

RELEASES = {1: "9924df8", 3: "3274dbb", 4: "069dd90"}
"""By schema, the last commit that had it; no commit had 2."""
ROUNDS, INTERRUPTED = 3, 2
SETTINGS = {
    "run": {"name": "older", "rounds": ROUNDS},
    "rollout": {"episodes": 4},
    "eval": {"episodes": 2},
    "clients": [{"name": name, "env": "fedse.testing:CoinWorld"} for name in ("alpha", "beta")],
}
PROGRAM = f"""
import json, os, sys
from pathlib import Path
import fedse
from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

assert fedse.__file__.startswith(sys.argv[3]), fedse.__file__

def stop(event, facts):
    if event == "round.committed" and facts["round"] == {INTERRUPTED}:
        os._exit(0)

config = Config.model_validate(json.loads(sys.argv[1]))
run = Run(Path(sys.argv[2]), config, toy_spec(), clock=lambda: 0.0, observers=[stop])
run_local(run, open_site=open_toy_site)
raise SystemExit("the run was not interrupted")
"""
Rows = Mapping[str, tuple[tuple[str, ...], list[tuple[object, ...]]]]
"""By table, its columns and its rows."""


class Opened(NamedTuple):
    """What became of a run of an older release."""

    schemas: tuple[int, ...]
    """Of its buffers, as the older release left them."""
    lessons: int
    games: int
    answers: int
    all_there: bool
    """Every value of every row is in the buffers that this release made of them."""
    copies_equal: bool
    """Beside each is a copy with every value that the older release had written."""
    ledgers_sound: bool
    rounds: int
    """Committed in the end, by both releases."""


def open_older(release: Path, folder: Path) -> Opened:
    """What this release finds in a run that `release`, which is installed there, began."""
    run = folder / "run"
    # Elsewhere than in the repository, whose own package would be imported first.
    command = [sys.executable, "-c", PROGRAM, json.dumps(SETTINGS), str(run), str(release)]
    environment = {**os.environ, "PYTHONPATH": str(release)}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    databases = client_databases(run)
    before = [rows_of(path) for path in databases]
    schemas = tuple(_schema(path) for path in databases)
    for path in databases:
        Buffer(path).close()
    pairs = list(zip(databases, before, strict=True))
    all_there = all(_has(rows_of(path), old) for path, old in pairs)
    copies = [[rows_of(copy) for copy in kept_copies(path)] for path in databases]
    with closing(Run(run, Config.model_validate(SETTINGS), toy_spec(), clock=lambda: 0.0)) as ours:
        run_local(ours, open_site=open_toy_site)
        rounds = ours.committed or 0
    return Opened(
        schemas=schemas,
        lessons=sum(len(old["trajectory"][1]) for old in before),
        games=sum(len(old["played"][1]) for old in before),
        answers=sum(len(old["outbox"][1]) for old in before),
        all_there=all_there,
        copies_equal=copies == [[old] for old in before],
        ledgers_sound=not any(verify_ledger(path).finding for path in ledgers_in(run)),
        rounds=rounds,
    )


def rows_of(database: Path) -> Rows:
    """All that is in a database."""
    with closing(sqlite3.connect(database)) as db:
        tables = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: _table(db, table) for table in tables}


def _table(db: sqlite3.Connection, table: str) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    found = db.execute(f"SELECT * FROM {table}")
    return tuple(column for column, *_ in found.description), sorted(found, key=repr)


def _schema(database: Path) -> int:
    with closing(sqlite3.connect(database)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def _has(new: Rows, old: Rows) -> bool:
    """Whether the columns that a table had hold the same rows."""
    for table, (columns, rows) in old.items():
        places = [new[table][0].index(column) for column in columns]
        found = [tuple(row[place] for place in places) for row in new[table][1]]
        if sorted(found, key=repr) != rows:
            return False
    return True
