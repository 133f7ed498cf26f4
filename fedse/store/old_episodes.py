"""Episodes that are older than a site keeps them are removed; their persons can still be forgotten.

A round is as old as its answer, and one without an answer as old as the next that has one. What
stays of a removed person or case is a salted digest of the name and the first rounds that learned
from it: with these, forgetting the person later finds the same adapters as if nothing had been
removed. Demonstrations, which are of round 0, are nobody's and stay.
"""

import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fedse.errors import EnvError
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database
from fedse.store.games import TRAINING, split_of
from fedse.store.sealing import Seal
from fedse.store.sweeping import finish_sweep, note_unswept
from fedse.types import Record, Task

SALT_BYTES = 16
OLD = (
    "EXISTS (SELECT 1 FROM json_each(:last) WHERE key = {0}.experiment"
    " AND {0}.round BETWEEN 1 AND value)"
)
SIGHTINGS, GAMES = OLD.format("sighting"), OLD.format("played")
LESSONS = (
    f"{OLD.format('trajectory')} AND content NOT IN (SELECT content FROM sighting"
    f" WHERE NOT {SIGHTINGS})"
)
"""Lessons of old rounds that no later round has met again."""

FirstRounds = dict[str, int]
"""By experiment, a round."""


class RemovedSubject(Record):
    """What is kept of a person or case whose episodes were too old; the name is not in it."""

    mark: str
    """A digest of the salt and the name."""
    salt: str
    seen: FirstRounds
    """The first round with a lesson about it."""
    failed: FirstRounds
    """The first round with any training game about it."""


class OldCounts(NamedTuple):
    lessons: int
    games: int


def salted(subject: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{subject}".encode("utf-8", "surrogatepass")).hexdigest()


def removed_of(db: Database, seal: Seal, subject: str) -> list[RemovedSubject]:
    """What was kept of `subject` when episodes about it were removed."""
    rows = db.execute("SELECT mark, body FROM removed")
    known = (
        RemovedSubject.model_validate_json(seal.open(body, ("removed", mark)))
        for mark, body in rows
    )
    return [one for one in known if salted(subject, one.salt) == one.mark]


class OldEpisodes:
    """The ages of a client's rounds in its open file, and how old ones are removed."""

    def __init__(self, db: Database, seal: Seal, subject_of: Callable[[Task], str | None]) -> None:
        self._db, self._seal, self._subject_of = db, seal, subject_of

    def note_answered(self, experiment: str, round: int, now: float) -> None:
        """The round has its age; one that had an age keeps it."""
        row = (experiment, round, now)
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO round_time VALUES (?, ?, ?)", row)

    def last_before(self, time: float) -> FirstRounds:
        """By experiment, the last round that was answered before then."""
        query = "SELECT experiment, max(round) FROM round_time WHERE time < ? GROUP BY experiment"
        return dict(self._db.execute(query, (time,)))

    def count(self, last: Mapping[str, int]) -> OldCounts:
        """How much would be removed of the rounds up to these."""
        tables = {"trajectory": LESSONS, "played": GAMES}
        queries = (f"SELECT count(*) FROM {table} WHERE {old}" for table, old in tables.items())
        given = {"last": json.dumps(last)}
        return OldCounts(*(self._db.execute(query, given).fetchone()[0] for query in queries))

    def remove(self, last: Mapping[str, int]) -> None:
        """No episode of the rounds up to these is left, unless a later round met it again."""
        given = {"last": json.dumps(last)}
        with transaction(self._db):
            for one in self._kept_of_them(given):
                body = self._seal.close(one.model_dump_json(), ("removed", one.mark))
                self._db.execute("INSERT INTO removed VALUES (?, ?)", (one.mark, body))
            self._db.execute(f"DELETE FROM trajectory WHERE {LESSONS}", given)
            self._db.execute(f"DELETE FROM sighting WHERE {SIGHTINGS}", given)
            self._db.execute(f"DELETE FROM played WHERE {GAMES}", given)
            self._db.execute(f"DELETE FROM round_time WHERE {OLD.format('round_time')}", given)
            note_unswept(self._db, "episodes that were too old")
        finish_sweep(self._db)

    def _kept_of_them(self, given: Mapping[str, str]) -> Iterator[RemovedSubject]:
        seen: defaultdict[str, FirstRounds] = defaultdict(dict)
        failed: defaultdict[str, FirstRounds] = defaultdict(dict)
        query = (
            "SELECT env, task, split, subject, sighting.experiment, min(sighting.round)"
            f" FROM trajectory JOIN sighting USING (content) WHERE {SIGHTINGS}"
            " GROUP BY content, sighting.experiment"
        )
        for *row, experiment, round in self._db.execute(query, given):
            _note_first(seen[self._name(*row)], experiment, round)
        query = (
            f"SELECT env, task, split, subject, experiment, round FROM played WHERE {GAMES}"
            f" AND {TRAINING}"
        )
        for *row, experiment, round in self._db.execute(query, given):
            _note_first(failed[self._name(*row)], experiment, round)
        for name in {*seen, *failed} - {""}:
            salt = secrets.token_hex(SALT_BYTES)
            yield RemovedSubject(
                mark=salted(name, salt), salt=salt, seen=seen[name], failed=failed[name]
            )

    def _name(self, env: str, task: str, record: str, subject: str | None) -> str:
        """Whom a row is about; empty = nobody can tell."""
        if subject is not None:
            return self._seal.show(subject)
        try:
            task = self._seal.show(task)
            return self._subject_of(Task(env=env, id=task, split=split_of(record))) or ""
        except EnvError:
            return ""


def _note_first(first: FirstRounds, experiment: str, round: int) -> None:
    first[experiment] = min(round, first.get(experiment, round))
