"""What a database was before it was brought up to date, in a copy beside it: the way back.

There is at most one copy. It is complete, for its owner alone, and on disk before the migration is.
It holds what the database held, so whatever makes bytes disappear from one removes the other.
"""

import os
from pathlib import Path

from fedse.store.database import Database, copy_database
from fedse.store.files import OWNER_ONLY, new_file, sync_folder
from fedse.store.space import Need, require_room

TIMES = 4
"""The copy, the log with the new pages and with those that are overwritten, and the grown file."""


def kept_copies(database: Path) -> list[Path]:
    """The copy of a database, and what a killed process left of one."""
    ending = f"{database.name}.schema-*"
    return sorted(path for name in (ending, f".{ending}") for path in database.parent.glob(name))


def keep_copy(db: Database, version: int) -> Path:
    """The file as it is has a copy; inside the transaction that will migrate it.

    So nobody else writes to it or copies it meanwhile.
    """
    remove_copies(db.path)
    pages, size = (db.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "page_size"))
    what = f"bringing {db.path.name} up to date, with a copy of it,"
    require_room(Need(db.path.parent, TIMES * pages * size, what))
    copy = db.path.with_name(f"{db.path.name}.schema-{version}")
    with new_file(copy, mode=OWNER_ONLY) as made:
        copy_database(db.path, made)
        with made.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(copy.parent)
    return copy


def remove_copies(database: Path) -> None:
    """The database has no copy."""
    for path in kept_copies(database):
        path.unlink()
