"""Change episodes that are stored already, as when an owner begins to redact later."""

import sqlite3
from collections.abc import Callable, Iterator

from fedse.store.parts import PART, part_games, part_text
from fedse.store.sealing import Seal
from fedse.types import Trajectory

Change = Callable[[Trajectory], Trajectory]


def stored_episodes(db: sqlite3.Connection, seal: Seal) -> Iterator[Trajectory]:
    """The lessons and the games on record, each read when it is asked for."""
    for content, body in db.execute("SELECT content, body FROM trajectory"):
        yield Trajectory.model_validate_json(seal.open(body, ("trajectory", content)))
    query = "SELECT experiment, round, split, position, body FROM played WHERE body NOT NULL"
    for *place, body in db.execute(query):
        yield Trajectory.model_validate_json(seal.open(body, ("played", *place)))


def rewrite_episodes(db: sqlite3.Connection, seal: Seal, change: Change) -> int:
    """Every episode is what `change` makes of it; how many it changed, inside one transaction.

    Two lessons that become equal are one, the older one. Seeds, outcomes and places stay.
    """
    return _lessons(db, seal, change) + _played(db, seal, change) + _parts(db, seal, change)


def _lessons(db: sqlite3.Connection, seal: Seal, change: Change) -> int:
    changed = 0
    for (number,) in db.execute("SELECT id FROM trajectory ORDER BY id").fetchall():
        query = "SELECT content, body FROM trajectory WHERE id = ?"
        content, body = db.execute(query, (number,)).fetchone()
        before = Trajectory.model_validate_json(seal.open(body, ("trajectory", content)))
        after = change(before)
        if after == before:
            continue
        changed += 1
        new = seal.hide(after.content_digest)
        taken = db.execute(
            "SELECT 1 FROM trajectory WHERE content = ? AND id <> ?", (new, number)
        ).fetchone()
        if taken:
            db.execute("DELETE FROM trajectory WHERE id = ?", (number,))
        else:
            values = (new, seal.close(after.model_dump_json(), ("trajectory", new)), number)
            db.execute("UPDATE trajectory SET content = ?, body = ? WHERE id = ?", values)
        db.execute("UPDATE OR IGNORE sighting SET content = ? WHERE content = ?", (new, content))
        if new != content:
            db.execute("DELETE FROM sighting WHERE content = ?", (content,))
    return changed


def _played(db: sqlite3.Connection, seal: Seal, change: Change) -> int:
    changed = 0
    rows = db.execute("SELECT rowid FROM played WHERE body NOT NULL").fetchall()
    for (number,) in rows:
        query = "SELECT experiment, round, split, position, body FROM played WHERE rowid = ?"
        *place, body = db.execute(query, (number,)).fetchone()
        row = ("played", *place)
        before = Trajectory.model_validate_json(seal.open(body, row))
        after = change(before)
        if after != before:
            changed += 1
            values = (seal.close(after.model_dump_json(), row), number)
            db.execute("UPDATE played SET body = ? WHERE rowid = ?", values)
    return changed


def _parts(db: sqlite3.Connection, seal: Seal, change: Change) -> int:
    changed = 0
    for number, *key, body in db.execute(f"SELECT rowid, {PART} FROM part").fetchall():
        row = ("part", *key)
        before = part_games(seal.open(body, row))
        after = [change(episode) for episode in before]
        different = sum(one != other for one, other in zip(before, after, strict=True))
        if different:
            changed += different
            values = (seal.close(part_text(after), row), number)
            db.execute("UPDATE part SET body = ? WHERE rowid = ?", values)
    return changed
