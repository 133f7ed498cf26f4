"""What can still be read of a damaged database, in a new one; the damaged one is kept beside it.

A table is read from its beginning and from its end, each up to the damage. A row whose content is
not what was written is left out: an episode by its digest, everything else if it cannot be parsed.
"""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fedse.committed import RoundResult
from fedse.errors import StoreError
from fedse.store.buffer_schema import FILL_LESSONS
from fedse.store.database import is_sound, names_of, open_database
from fedse.store.erasure import Erasure
from fedse.store.parts import part_games
from fedse.store.resealing import KEYS
from fedse.store.sealing import UNSEALED, Seal
from fedse.types import ClientStats, Trajectory

Row = Mapping[str, Any]


class Salvaged(NamedTuple):
    """What became of a damaged database."""

    aside: Path
    """Where the damaged file is now."""
    kept: Mapping[str, int]
    """Rows by table."""
    dropped: int
    """Rows that could be reached and were not as written; what cannot be reached is not counted."""


def is_whole(database: Path, seal: Seal = UNSEALED) -> bool:
    """Whether the file is sound and every row in it is what was written."""
    try:
        return is_sound(database) and _are_rows_as_written(database, seal)
    except StoreError:
        return False


def _are_rows_as_written(database: Path, seal: Seal) -> bool:
    with closing(open_database(database, read_only=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
        return all(
            _is_as_written(table, dict(zip(names_of(db, table), row, strict=True)), seal)
            for table in CHECKS
            if table in tables
            for row in db.execute(f"SELECT * FROM {table}")
        )


def salvage(
    database: Path, create: Callable[[Path], sqlite3.Connection], seal: Seal = UNSEALED
) -> Salvaged:
    """`database` holds every row that can be read; `create` makes an empty one of its kind."""
    with TemporaryDirectory(prefix=".salvage-", dir=database.parent) as name:
        copy, fresh = Path(name) / database.name, Path(name) / "fresh.db"
        # SQLite may write to what it reads; the original stays as it was found.
        for file in _files(database):
            shutil.copy(file, copy.with_name(file.name))
        kept, dropped = _copy_rows(copy, fresh, create, seal)
        if not sum(kept.values()):
            raise StoreError(
                f"nothing can be read of {database}",
                hint=f"put it back from a backup, or move it away to begin without it: {database}",
            )
        aside = set_aside(database)
        fresh.replace(database)
    return Salvaged(aside, kept, dropped)


def _copy_rows(
    damaged: Path, fresh: Path, create: Callable[[Path], sqlite3.Connection], seal: Seal
) -> tuple[dict[str, int], int]:
    kept, dropped = Counter[str](), Counter[str]()

    def sound(table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        for row in _readable(old, table, names):
            as_written = _is_as_written(table, dict(zip(names, row, strict=True)), seal)
            (kept if as_written else dropped)[table] += 1
            if as_written:
                yield row

    with closing(create(fresh)) as new, closing(sqlite3.connect(damaged)) as old:
        tables = [name for (name,) in new.execute(TABLES)]
        new.execute("BEGIN")
        for table in tables:
            names = _common_columns(old, new, table)
            marks = ", ".join("?" * len(names))
            insert = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"
            new.executemany(insert, sound(table, names))
            if table == "trajectory" and "seed" not in names:
                new.execute(FILL_LESSONS)
        new.execute("COMMIT")
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        new.execute("PRAGMA journal_mode = DELETE")
    return dict(kept), dropped.total()


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def _common_columns(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> Sequence[str]:
    """Those of the new table that the damaged one has, too; all if it does not tell any more."""
    names = list(names_of(new, table))
    with suppress(sqlite3.Error):
        there = set(names_of(old, table))
        return [name for name in names if name in there] or names
    return names


def _readable(db: sqlite3.Connection, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Each row once, from both ends of the table up to where it cannot be read."""
    seen: set[int] = set()
    for order in ("ASC", "DESC"):
        query = f"SELECT rowid, {', '.join(names)} FROM {table} ORDER BY rowid {order}"
        with suppress(sqlite3.Error):
            for number, *row in db.execute(query):
                if number in seen:
                    break
                seen.add(number)
                yield row


def set_aside(database: Path) -> Path:
    """The damaged files have other names; that of the database itself."""
    for number in count(1):
        aside = database.with_name(f"{database.name}.damaged-{number}")
        if not aside.exists():
            break
    for file in _files(database):
        file.rename(aside.with_name(aside.name + file.name.removeprefix(database.name)))
    return aside


def _files(database: Path) -> list[Path]:
    """The database, and what SQLite keeps beside it."""
    names = [database, *(database.with_name(f"{database.name}{end}") for end in ("-wal", "-shm"))]
    return [file for file in names if file.exists()]


def _is_as_written(table: str, row: Row, seal: Seal) -> bool:
    try:
        return CHECKS.get(table, _nothing)(row, seal)
    except (ValueError, TypeError):
        return False


def _nothing(row: Row, seal: Seal) -> bool:
    return True


def _text(table: str, row: Row, seal: Seal) -> str:
    return seal.open(row["body"], (table, *(row[name] for name in KEYS[table])))


def _episode(row: Row, seal: Seal) -> bool:
    episode = Trajectory.model_validate_json(_text("trajectory", row, seal))
    return bool(seal.hide(episode.content_digest) == row["content"])


def _game(row: Row, seal: Seal) -> bool:
    text = None if row["body"] is None else _text("played", row, seal)
    return text is None or bool(Trajectory.model_validate_json(text))


def _part(row: Row, seal: Seal) -> bool:
    return bool(part_games(_text("part", row, seal)))


def _erasure(row: Row, seal: Seal) -> bool:
    return bool(Erasure.model_validate_json(_text("erasure", row, seal)))


def _answer(row: Row, seal: Seal) -> bool:
    return bool(ClientStats.model_validate_json(row["stats"]))


def _round(row: Row, seal: Seal) -> bool:
    return row["result"] is None or bool(RoundResult.model_validate_json(row["result"]))


CHECKS: Mapping[str, Callable[[Row, Seal], bool]] = {
    "trajectory": _episode,
    "played": _game,
    "part": _part,
    "erasure": _erasure,
    "outbox": _answer,
    "evaluation": _answer,
    "round": _round,
}
"""By table, whether a row is what was written; the others are not looked into."""
