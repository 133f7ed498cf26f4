"""A buffer's seal: that it is the right one, and how all rows go over to another."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.errors import StoreError
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database, damaged
from fedse.store.lock import locked
from fedse.store.sealing import Body, BrokenSeal, Row, Seal
from fedse.store.sweeping import is_unswept, note_unswept, sweep

KEYS: Mapping[str, tuple[str, ...]] = {
    "trajectory": ("content",),
    "played": ("experiment", "round", "split", "position"),
    "part": ("experiment", "round", "split", "start", "identity"),
    "erasure": ("mark",),
    "removed": ("mark",),
    "exported": ("number",),
}
"""By table with a sealed body, the columns that name a row."""
HIDDEN: Mapping[str, tuple[str, ...]] = {
    "trajectory": ("content", "task", "subject"),
    "sighting": ("content",),
    "played": ("task", "subject"),
    "part": ("identity",),
    "exported_task": ("task",),
}
"""By table, the columns with hidden names."""


class SealedFile(NamedTuple):
    """A file beside the buffer, of another package, that is under the same key."""

    path: Path
    open: Callable[[Path], Database]
    keys: Mapping[str, tuple[str, ...]]
    """As KEYS, and the next as HIDDEN."""
    hidden: Mapping[str, tuple[str, ...]]


def key_id_of(db: Database) -> str:
    """Which key the file is encrypted with; empty = it is not."""
    row = db.execute("SELECT key_id FROM sealed").fetchone()
    return row[0] if row else ""


class FileSeal(NamedTuple):
    """The seal of one file: a row that does not open is damage of that file."""

    seal: Seal
    path: Path

    @property
    def key_id(self) -> str:
        return self.seal.key_id

    def close(self, text: str, row: Row) -> Body:
        return self.seal.close(text, row)

    def open(self, body: Body, row: Row) -> str:
        try:
            return self.seal.open(body, row)
        except BrokenSeal as error:
            raise damaged(self.path, error) from error

    def hide(self, name: str) -> str:
        return self.seal.hide(name)

    def show(self, hidden: str) -> str:
        try:
            return self.seal.show(hidden)
        except BrokenSeal as error:
            raise damaged(self.path, error) from error


def fitting_seal(db: Database, seal: Seal) -> FileSeal:
    """`seal` is the one the file is written with; a file without a text takes the one it is given.

    A file with texts is encrypted by a command, because it takes long and sweeps the file.
    """
    own, fitting = key_id_of(db), FileSeal(seal, db.path)
    if own == seal.key_id:
        return fitting
    home = db.path.parent
    if not seal.key_id:
        raise StoreError(
            f"{db.path} is encrypted with key {own}, and no key is named",
            hint=f'name its file in {home / "site.toml"}: [storage] key = "FILE"',
        )
    if own:
        raise StoreError(
            f"{db.path} is encrypted with key {own}, the key given is {seal.key_id}",
            hint="put the right key file back from a backup, or correct [storage] key in "
            f"{home / 'site.toml'}; without it the episodes cannot be read by anybody",
        )
    if any(db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in KEYS):
        raise StoreError(
            f"{db.path} is not encrypted yet, but a key is named for it",
            hint=f"fedse privacy encrypt --home {home}",
        )
    with transaction(db):
        db.execute("INSERT OR IGNORE INTO sealed VALUES (?)", (seal.key_id,))
    return fitting


def reseal_beside(files: Iterable[SealedFile], known: Iterable[Seal], after: Seal) -> int:
    """Every file is written with `after`, whichever of the `known` it was under; rows changed.

    Whoever writes to such a file holds its folder meanwhile. A file under another key stops this.
    """
    seals, changed = {seal.key_id: seal for seal in known}, 0
    for file in files:
        busy = f"{file.path.parent} is in use: an agent is in service"
        again = "stop it (Ctrl-C, or its service), then give the command again"
        with locked(file.path.parent, busy=busy, hint=again), closing(file.open(file.path)) as db:
            own = key_id_of(db)
            if own == after.key_id:
                if is_unswept(db):
                    sweep(db)
            elif own in seals:
                before = FileSeal(seals[own], file.path)
                changed += reseal(db, before, after, file.keys, file.hidden)
            else:
                raise StoreError(
                    f"{file.path} is encrypted with key {own}, which is not the site's",
                    hint="put that key back from a backup, or move the file away: without the key "
                    "nobody can read it",
                )
    return changed


def reseal(
    db: Database,
    before: Seal,
    after: Seal,
    keys: Mapping[str, tuple[str, ...]] = KEYS,
    hidden: Mapping[str, tuple[str, ...]] = HIDDEN,
) -> int:
    """All rows are written with `after` instead of `before`, or none is; how many."""
    with transaction(db):
        changed = sum(
            _reseal_rows(db, table, columns, hidden.get(table, ()), before, after)
            for table, columns in keys.items()
        )
        for table, names in hidden.items():
            for column in set(names) - set(keys.get(table, ())):
                _rename(db, table, column, before, after)
        db.execute("DELETE FROM sealed")
        if after.key_id:
            db.execute("INSERT INTO sealed VALUES (?)", (after.key_id,))
        note_unswept(db, "another key")
    sweep(db)
    return changed


def _reseal_rows(
    db: Database,
    table: str,
    columns: tuple[str, ...],
    hidden: tuple[str, ...],
    before: Seal,
    after: Seal,
) -> int:
    numbers = db.execute(f"SELECT rowid FROM {table} ORDER BY rowid").fetchall()
    for (number,) in numbers:
        query = f"SELECT {', '.join((*columns, 'body'))} FROM {table} WHERE rowid = ?"
        *key, body = db.execute(query, (number,)).fetchone()
        text = None if body is None else before.open(body, (table, *key))
        named = [
            after.hide(before.show(value)) if column in hidden else value
            for column, value in zip(columns, key, strict=True)
        ]
        closed = None if text is None else after.close(text, (table, *named))
        sets = ", ".join(f"{column} = ?" for column in (*columns, "body"))
        values = (*named, closed, number)
        db.execute(f"UPDATE {table} SET {sets} WHERE rowid = ?", values)
    return len(numbers)


def _rename(db: Database, table: str, column: str, before: Seal, after: Seal) -> None:
    found = db.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} NOT NULL")
    names = {name: after.hide(before.show(name)) for (name,) in found}
    # One pass over the table, however many names there are.
    db.create_function("renamed", 1, names.get, deterministic=True)
    db.execute(f"UPDATE {table} SET {column} = renamed({column})")
