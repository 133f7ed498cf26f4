"""One client's experience: a content-addressed SQLite file that survives kill -9.

An episode once added is never changed, removed or counted twice. While a round is under way, the
games of it that were played are kept part by part, until its answer is in the outbox.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import History
from fedse.errors import StoreError, boundary
from fedse.store.buffer_schema import open_file, transaction
from fedse.store.outbox import Outbox
from fedse.types import Outcome, Task, Trajectory

# An episode that was met before is stored once, but this round has met it all the same.
SEEN = "content IN (SELECT content FROM sighting WHERE experiment = :experiment AND {})"
KEPT: Mapping[History, str] = {
    "all": "experiment <> :experiment OR round <= :round",
    "demonstrations": SEEN.format("round IN (0, :round)"),
    "round": SEEN.format("round = :round"),
}
"""Which episodes are learned from in a round; all but the first are ablations."""

TRAINING = "split IN ('train', 'train-personal')"
"""Games in tasks to learn from, whoever played them."""


class Played(NamedTuple):
    """One game on record: played in `round`, so by the adapter of the round before."""

    round: int
    split: str
    """The split of its task, or the record it is on, as `home` or `test-personal`."""
    position: int
    """Which game of that round and split; the held-out ones are the same in every round."""
    env: str
    task: str
    seed: int
    outcome: Outcome
    episode: Trajectory | None
    """All that was said in it, where that was kept."""


class Tally(NamedTuple):
    """How often a task was tried and won; a broken game is no try."""

    tries: int
    won: int


class RolloutPart(NamedTuple):
    """Some of the games of a round: those from `start` on that were played together."""

    experiment: str
    round: int
    record: str
    """Name under which they are on record, as `train` or `test`."""
    start: int
    identity: str
    """Digest of all that decides how these games go."""


class Buffer:
    """The open store of one client."""

    def __init__(self, path: Path) -> None:
        with boundary(StoreError, f"buffer {path}"):
            self._db = open_file(path)
        self.outbox = Outbox(self._db)

    def add(self, episodes: Sequence[Trajectory], *, experiment: str) -> None:
        """All `episodes` are stored, in one transaction, unless they already were."""
        rows = [
            (
                episode.content_digest,
                experiment,
                episode.round,
                episode.task.env,
                episode.task.id,
                episode.outcome,
                episode.policy,
                episode.model_dump_json(),
            )
            for episode in episodes
        ]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO trajectory (content, experiment, round, env, task, outcome, policy,"
                " body) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (content) DO NOTHING",
                rows,
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO sighting VALUES (?, ?, ?)",
                [(experiment, round, content) for content, _, round, *_ in rows],
            )

    def __len__(self) -> int:
        row = self._db.execute("SELECT count(*) FROM trajectory").fetchone()
        return int(row[0])

    def added(self, experiment: str, round: int) -> int:
        """How many episodes this round brought; the same when the round is done twice."""
        row = self._db.execute(
            "SELECT count(*) FROM trajectory WHERE experiment = ? AND round = ?",
            (experiment, round),
        ).fetchone()
        return int(row[0])

    def lessons(
        self, experiment: str, round: int, history: History = "all"
    ) -> Iterator[Trajectory]:
        """D_train(round), oldest first: all there is but what later rounds of it brought."""
        query = f"SELECT body FROM trajectory WHERE {KEPT[history]} ORDER BY id"
        for (body,) in self._db.execute(query, {"experiment": experiment, "round": round}):
            yield Trajectory.model_validate_json(body)

    def record_played(
        self, episodes: Sequence[Trajectory], *, experiment: str, bodies: bool, record: str = ""
    ) -> None:
        """How each episode ended is on record, with all that was said in it if `bodies`.

        `record` is the name they are kept under instead of the split of their tasks. A game played
        again replaces its earlier record.
        """
        places: Counter[tuple[int, str]] = Counter()
        rows = []
        for episode in episodes:
            task, place = episode.task, (episode.round, record or episode.task.split)
            body = episode.model_dump_json() if bodies else None
            key = (experiment, *place, places[place])
            rows.append((*key, task.env, task.id, episode.seed, episode.outcome, body))
            places[place] += 1
        with self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO played VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def played(self, experiment: str) -> Iterator[Played]:
        """All games on record, in the order they were played."""
        rows = self._db.execute(
            "SELECT round, split, position, env, task, seed, outcome, body FROM played"
            " WHERE experiment = ? ORDER BY round, split DESC, position",
            (experiment,),
        )
        for row in rows:
            body = row[-1]
            episode = Trajectory.model_validate_json(body) if body else None
            yield Played._make((*row[:-1], episode))

    def tallies(self, experiment: str, *, before: int) -> dict[Task, Tally]:
        """How the games of each training task ended in the rounds before that one."""
        rows = self._db.execute(
            "SELECT env, task, count(*), sum(outcome = 'success') FROM played WHERE experiment = ?"
            f" AND {TRAINING} AND round < ? AND outcome <> 'broken' GROUP BY env, task",
            (experiment, before),
        )
        return {
            Task(env=env, id=task, split="train"): Tally(tries, won)
            for env, task, tries, won in rows
        }

    def kept_by_task(self, experiment: str, *, before: int) -> dict[Task, frozenset[str]]:
        """Content digests of what the rounds before that one chose, demonstrations not counted."""
        rows = self._db.execute(
            "SELECT env, task, group_concat(content) FROM sighting JOIN trajectory USING (content)"
            " WHERE sighting.experiment = ? AND sighting.round BETWEEN 1 AND ? GROUP BY env, task",
            (experiment, before - 1),
        )
        return {
            Task(env=env, id=task, split="train"): frozenset(contents.split(","))
            for env, task, contents in rows
        }

    def failures(
        self, experiment: str, round: int, history: History = "all", *, most: int
    ) -> list[Trajectory]:
        """The newest `most` different episodes that failed in training tasks, oldest first.

        Of the rounds that `history` says, and only those whose text was kept. Held-out games are
        never among them.
        """
        first = 1 if history == "all" else round
        rows = self._db.execute(
            "SELECT body FROM played WHERE experiment = ? AND round BETWEEN ? AND ?"
            f" AND {TRAINING} AND outcome = 'failure' AND body NOT NULL"
            " ORDER BY round DESC, position DESC",
            (experiment, first, round),
        )
        found: dict[str, Trajectory] = {}
        for (body,) in rows:
            if len(found) == most:
                break
            episode = Trajectory.model_validate_json(body)
            if episode.turns:
                found.setdefault(episode.content_digest, episode)
        return list(reversed(found.values()))

    def held_out(self, experiment: str, round: int, record: str = "test") -> Iterator[Played]:
        """The games of a round on this record in their order, without what was said in them."""
        rows = self._db.execute(
            "SELECT round, split, position, env, task, seed, outcome, NULL FROM played"
            " WHERE experiment = ? AND round = ? AND split = ? ORDER BY position",
            (experiment, round, record),
        )
        yield from map(Played._make, rows)

    def experiments(self) -> tuple[str, ...]:
        """The experiments there is an episode of, in order of name."""
        rows = self._db.execute(
            "SELECT experiment FROM played UNION SELECT experiment FROM trajectory ORDER BY 1"
        )
        return tuple(name for (name,) in rows)

    def games(self, experiment: str) -> Iterator[Played]:
        """As `played`, without what was said."""
        rows = self._db.execute(
            "SELECT round, split, position, env, task, seed, outcome, NULL FROM played"
            " WHERE experiment = ? ORDER BY round, split DESC, position",
            (experiment,),
        )
        yield from map(Played._make, rows)

    def kept(self, experiment: str) -> Iterator[Played]:
        """The games learned from, oldest first, without what was said; round 0 = demonstrations."""
        rows = self._db.execute(
            "SELECT round, json_extract(body, '$.task.split'),"
            " row_number() OVER (PARTITION BY round ORDER BY id) - 1, env, task,"
            " json_extract(body, '$.seed'), outcome, NULL FROM trajectory"
            " WHERE experiment = ? ORDER BY id",
            (experiment,),
        )
        yield from map(Played._make, rows)

    def said(self, experiment: str, game: Played) -> Trajectory | None:
        """The whole episode of a game on record, where it was kept."""
        row = self._db.execute(
            "SELECT body FROM played WHERE experiment = ? AND round = ? AND split = ?"
            " AND position = ? AND seed = ? AND body IS NOT NULL"
            " UNION ALL SELECT body FROM trajectory WHERE experiment = ? AND round = ?"
            " AND task = ? AND json_extract(body, '$.seed') = ? LIMIT 1",
            (experiment, *game[:3], game.seed, experiment, game.round, game.task, game.seed),
        ).fetchone()
        return Trajectory.model_validate_json(row[0]) if row else None

    def keep_part(self, part: RolloutPart, episodes: Sequence[Trajectory]) -> None:
        """The games of `part` are durable; parts of any other round are gone."""
        # Not the model's own JSON, which cannot hold NaN or half a surrogate pair.
        body = json.dumps([episode.model_dump(mode="json") for episode in episodes])
        with self._transaction():
            self._db.execute("DELETE FROM part WHERE (experiment, round) <> (?, ?)", part[:2])
            self._db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", (*part, body))

    def part(self, part: RolloutPart) -> list[Trajectory] | None:
        """The games of exactly this part, if they were kept."""
        row = self._db.execute(
            "SELECT body FROM part WHERE experiment = ? AND round = ? AND split = ?"
            " AND start = ? AND identity = ?",
            part,
        ).fetchone()
        if row is None:
            return None
        with boundary(StoreError, f"games of round {part.round} from {part.start} on"):
            return [Trajectory.model_validate(episode) for episode in json.loads(row[0])]

    def close(self) -> None:
        self._db.close()

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._db)
