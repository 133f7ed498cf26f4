"""Free the disk of what nothing needs any more: in a run's folder, and in a client's home.

Only while nobody works there. What a resume needs is never removed: the adapter of the last
committed round with its moments, and a client's newest answers.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.errors import StoreError, boundary
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.kept_copy import kept_copies, remove_copies
from fedse.store.retention import (
    Removable,
    copies,
    leftovers,
    old_late_replies,
    old_rounds,
    remove,
    share,
)
from fedse.store.run import Run

SPARE_BYTES = 1 << 20
"""Free pages up to which a database is left as it is."""
PRAGMAS, FREE_PAGES = ("freelist_count", "page_size"), "free pages"
COPY = "the buffer as it was before an upgrade"


class Freed(NamedTuple):
    """What was removed, or would be."""

    path: Path
    what: str
    bytes: int


def collect_run(run: Run, *, rounds: int, answers: int, dry_run: bool) -> list[Freed]:
    """The run keeps the adapters of its newest `rounds` (0 = all), each once on the disk.

    Its clients' outboxes keep the adapters of the newest `answers`.
    """
    found = [*old_rounds(run, rounds), *old_late_replies(run, rounds), *leftovers(run)]
    freed = _sizes(found)
    if not dry_run:
        remove(found)
    gone = {one.path for one in found}
    pairs = [(blob, export) for blob, export in copies(run) if blob not in gone]
    freed += [Freed(export, "has the same bytes as its blob", _size(export)) for _, export in pairs]
    if not dry_run:
        share(pairs)
    for database in client_databases(run.path):
        freed += collect_outbox(database, answers=answers, dry_run=dry_run)
    return freed


def client_databases(run: Path) -> list[Path]:
    """The buffers of the clients whose homes are inside a run's folder."""
    places = ("clients", "flower/sites")
    return [db for where in places for db in run.glob(f"{where}/*/buffer.db")]


def collect_outbox(database: Path, *, answers: int, dry_run: bool) -> list[Freed]:
    """The outbox keeps the adapters of the newest `answers` votes (0 = all); no copy is kept."""
    if not database.is_file():
        return []
    with closing(Buffer(database, seal=seal_beside(database))) as buffer:
        outbox = buffer.outbox
        votes = outbox.votes_beyond(answers) if dry_run else outbox.keep_newest(answers)
    freed = compact(database, dry_run=dry_run, soon=sum(v.bytes for v in votes) if dry_run else 0)
    rounds = ", ".join(str(vote.round) for vote in reversed(votes))
    what = f"adapters of the answers to rounds {rounds}" if votes else FREE_PAGES
    old = [Freed(copy, COPY, _size(copy)) for copy in kept_copies(database)]
    if not dry_run:
        remove_copies(database)
    return old + ([Freed(database, what, freed)] if votes or freed else [])


def compact(database: Path, *, dry_run: bool, soon: int = 0) -> int:
    """The file has no free pages to speak of; bytes given back to the disk, or that would be.

    `soon` = bytes that are about to become free.
    """
    before = database.stat().st_size
    hint = "it needs as much free disk as the file is long, for a moment"
    with (
        boundary(StoreError, f"{database} cannot be made smaller", hint=hint),
        closing(sqlite3.connect(database, isolation_level=None, timeout=30.0)) as db,
    ):
        pages, size = (db.execute(f"PRAGMA {n}").fetchone()[0] for n in PRAGMAS)
        if dry_run or pages * size <= SPARE_BYTES:
            free = int(pages * size) + soon
            return free if dry_run and free > SPARE_BYTES else 0
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return max(0, before - database.stat().st_size)


def _sizes(found: Sequence[Removable]) -> list[Freed]:
    """Each with its bytes; a file with two names counts once."""
    seen: set[int] = set()
    freed = []
    for path, why in found:
        size = 0
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            number = file.stat().st_ino
            size += 0 if file.is_dir() or number in seen else file.stat().st_size
            seen.add(number)
        freed.append(Freed(path, why, size))
    return freed


def _size(file: Path) -> int:
    return file.stat().st_size
