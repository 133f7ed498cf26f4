"""Forget a person or case: every row about it is gone in one transaction, and no byte is left.

What is about whom the environment says of a task, when it is stored or, for older rows, when it is
forgotten. Of an erasure counts stay, and a salted digest by which the same name is recognised: the
person is not learned about again, and who asks can be shown the line in the ledger.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from fedse.errors import EnvError, StoreError
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database
from fedse.store.games import TRAINING, split_of
from fedse.store.old_episodes import SALT_BYTES, RemovedSubject, removed_of, salted
from fedse.store.parts import all_parts
from fedse.store.sealing import Seal
from fedse.store.sweeping import note_unswept, remnants, sweep, windows_of
from fedse.types import Record, Task

LESSONS = "SELECT content, body FROM trajectory WHERE id = ?"
GAMES = "SELECT experiment, round, split, position, body FROM played WHERE rowid = ?"
PARTS = "SELECT body FROM part WHERE rowid = ?"
TABLES = ("trajectory", "played", "part")


class Erasure(Record):
    """What was removed of one person or case; its name is not in it."""

    mark: str
    """A digest of the salt and the name."""
    salt: str
    """Stays in the buffer: with it, names could be tried on the mark in the ledger."""
    made: float
    """Seconds since 1970."""
    lessons: int
    games: int
    parts: int
    seen: dict[str, int]
    """By experiment, the first round with a lesson about it; 0 = a demonstration."""
    exports: tuple[str, ...] = ()
    """Files that were exported before and hold some of it."""

    def is_of(self, subject: str) -> bool:
        return salted(subject, self.salt) == self.mark


class SubjectRows(NamedTuple):
    """All that is stored about one person or case."""

    lessons: tuple[int, ...]
    """Numbers of rows, as in the next two."""
    games: tuple[int, ...]
    parts: tuple[int, ...]
    tasks: frozenset[tuple[str, str]]
    """Environment and id of the tasks about it that were played."""
    seen: Mapping[str, int]
    unknown: int
    """Stored episodes whose subject nobody can tell."""
    mentioned: int
    """Other stored episodes that have the name in their text."""
    removed: tuple[str, ...] = ()
    """Marks of what is kept of it, because episodes about it were removed for their age."""

    @property
    def rows(self) -> int:
        return len(self.lessons) + len(self.games) + len(self.parts)


class Erasures:
    """The erasures of one client in its open file, and how another one is made."""

    def __init__(self, db: Database, seal: Seal, subject_of: Callable[[Task], str | None]) -> None:
        self._db, self._seal, self._subject_of = db, seal, subject_of
        self._known = list(self._stored())

    def all(self) -> list[Erasure]:
        """Every erasure, the oldest first."""
        return sorted(self._known, key=lambda one: one.made)

    def of(self, subject: str) -> list[Erasure]:
        return [one for one in self.all() if one.is_of(subject)]

    def is_forgotten(self, subject: str | None) -> bool:
        """Whether nothing about it may be stored any more."""
        return subject is not None and any(one.is_of(subject) for one in self._known)

    def find(self, subject: str, *, failures: bool = False) -> SubjectRows:
        """What is stored about `subject`; `failures` = failed games were learned from as well."""
        lessons, unsure = self._about("trajectory", subject)
        games, unclear = self._about("played", subject)
        parts = [
            number
            for number, episodes in all_parts(self._db, self._seal)
            if any(self._named(episode.task) == subject for episode in episodes)
        ]
        tasks = self._tasks("trajectory", lessons) | self._tasks("played", games)
        name, rest = json.dumps(subject, ensure_ascii=False)[1:-1], 0
        for table, number, text in self._texts():
            rest += number not in (lessons if table == "trajectory" else games) and name in text
        removed = removed_of(self._db, self._seal, subject)
        seen = self._seen(lessons, games if failures else (), removed, failures=failures)
        rows = (tuple(sorted(lessons)), tuple(sorted(games)), tuple(parts))
        return SubjectRows(
            *rows,
            frozenset(tasks),
            seen,
            unsure + unclear,
            rest,
            tuple(one.mark for one in removed),
        )

    def forget(
        self, subject: str, found: SubjectRows, *, made: float, exports: Collection[str] = ()
    ) -> Erasure:
        """Nothing of what was found is in the tables any more, and the erasure is on record.

        With it go the optimiser's moments and the site's own blocks of the adapter that were made
        with it. `sweep_away` does the rest.
        """
        salt = secrets.token_hex(SALT_BYTES)
        erasure = Erasure(
            mark=salted(subject, salt),
            salt=salt,
            made=made,
            lessons=len(found.lessons),
            games=len(found.games),
            parts=len(found.parts),
            seen=dict(found.seen),
            exports=tuple(exports),
        )
        with transaction(self._db):
            self._delete(found)
            for experiment, round in found.seen.items():
                for table in ("moments", "local_block"):
                    self._db.execute(
                        f"DELETE FROM {table} WHERE experiment = ? AND round >= ?",
                        (experiment, round),
                    )
            marks = [(mark,) for mark in found.removed]
            self._db.executemany("DELETE FROM removed WHERE mark = ?", marks)
            row = ("erasure", erasure.mark)
            body = self._seal.close(erasure.model_dump_json(), row)
            self._db.execute("INSERT INTO erasure VALUES (?, ?)", (erasure.mark, body))
            note_unswept(self._db, "an erasure")
        self._known.append(erasure)
        return erasure

    def take_out(self, tasks: Collection[Task]) -> None:
        """No lesson from these tasks is left, whoever they are about; nothing else is forgotten."""
        names = {(task.env, self._seal.hide(task.id)) for task in tasks}
        with transaction(self._db):
            rows = self._db.execute("SELECT content, env, task FROM trajectory")
            found = [(content,) for content, *name in rows if tuple(name) in names]
            for table in ("sighting", "trajectory"):
                self._db.executemany(f"DELETE FROM {table} WHERE content = ?", found)

    def pieces(self, found: SubjectRows) -> set[bytes]:
        """Pieces of the bodies that were found, by which what is left of them is recognised."""
        kinds = ((LESSONS, found.lessons), (GAMES, found.games), (PARTS, found.parts))
        bodies = [self._db.execute(query, (n,)).fetchone()[-1] for query, ns in kinds for n in ns]
        return {window for body in bodies if body is not None for window in windows_of(body)}

    def sweep_away(self, pieces: Collection[bytes] = ()) -> None:
        """No byte of what was removed is in the file or its log; `pieces` of it were looked for."""
        sweep(self._db)
        left = [one for one in remnants(self._db.path, pieces) if not self._is_stored(one)]
        if left:
            raise StoreError(
                f"{self._db.path} still holds {len(left)} pieces of what was removed",
                hint="end whatever reads the file, then give the command again",
            )

    def _is_stored(self, piece: bytes) -> bool:
        """Whether another episode, which stays, has the same words."""
        queries = (f"SELECT 1 FROM {t} WHERE instr(CAST(body AS BLOB), ?)" for t in TABLES)
        return any(self._db.execute(query, (piece,)).fetchone() for query in queries)

    def _delete(self, found: SubjectRows) -> None:
        for number in found.lessons:
            content, _ = self._db.execute(LESSONS, (number,)).fetchone()
            self._db.execute("DELETE FROM sighting WHERE content = ?", (content,))
            self._db.execute("DELETE FROM trajectory WHERE id = ?", (number,))
        for table, numbers in (("played", found.games), ("part", found.parts)):
            self._db.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(n,) for n in numbers])
        self._db.executemany(
            "DELETE FROM exported_task WHERE env = ? AND task = ?",
            [(env, self._seal.hide(task)) for env, task in found.tasks],
        )

    def _about(self, table: str, subject: str) -> tuple[set[int], int]:
        """The rows about `subject`, and how many there are about nobody knows whom."""
        query = f"SELECT rowid FROM {table} WHERE subject = ?"
        found = {number for (number,) in self._db.execute(query, (self._seal.hide(subject),))}
        unknown = 0
        query = f"SELECT rowid, env, task, split FROM {table} WHERE subject IS NULL"
        for number, env, task, record in self._db.execute(query):
            named = self._named(Task(env=env, id=self._seal.show(task), split=split_of(record)))
            unknown += named is None
            if named == subject:
                found.add(number)
        return found, unknown

    def _named(self, task: Task) -> str | None:
        """The subject of a task, unless the environment does not know the task any more."""
        try:
            return self._subject_of(task)
        except EnvError:
            return None

    def _tasks(self, table: str, numbers: Collection[int]) -> set[tuple[str, str]]:
        query = f"SELECT env, task FROM {table} WHERE rowid = ?"
        rows = [self._db.execute(query, (number,)).fetchone() for number in numbers]
        return {(env, self._seal.show(task)) for env, task in rows}

    def _seen(
        self,
        lessons: Collection[int],
        failed: Collection[int],
        removed: Collection[RemovedSubject],
        *,
        failures: bool,
    ) -> dict[str, int]:
        contents = {self._db.execute(LESSONS, (number,)).fetchone()[0] for number in lessons}
        met = [
            (experiment, round)
            for experiment, round, content in self._db.execute("SELECT * FROM sighting")
            if content in contents
        ]
        query = f"SELECT experiment, round FROM played WHERE rowid = ? AND {TRAINING}"
        for number in failed:
            met += self._db.execute(query, (number,))
        for one in removed:
            met += [*one.seen.items(), *(one.failed.items() if failures else ())]
        seen: dict[str, int] = {}
        for experiment, round in met:
            seen[experiment] = min(round, seen.get(experiment, round))
        if lessons or any(one.seen for one in removed):
            # An experiment learns from what others brought, and when is not on record.
            rows = self._db.execute("SELECT DISTINCT experiment FROM outbox")
            seen |= {name: 0 for (name,) in rows if name not in seen}
        return seen

    def _texts(self) -> Iterator[tuple[str, int, str]]:
        rows = self._db.execute("SELECT id, content, body FROM trajectory")
        for number, content, body in rows:
            yield "trajectory", number, self._seal.open(body, ("trajectory", content))
        query = "SELECT rowid, experiment, round, split, position, body FROM played"
        for number, *key, body in self._db.execute(f"{query} WHERE body NOT NULL"):
            yield "played", number, self._seal.open(body, ("played", *key))

    def _stored(self) -> Iterator[Erasure]:
        for mark, body in self._db.execute("SELECT mark, body FROM erasure"):
            yield Erasure.model_validate_json(self._seal.open(body, ("erasure", mark)))
