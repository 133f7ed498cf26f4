"""One client's experience: a content-addressed SQLite file that survives kill -9.

An episode once added is never changed or counted twice, and removed only if the person or case it
is about is forgotten, its success is taken back, or it is older than its owner keeps any. While a
round is under way, the games of it that were played are kept part by part, until its answer is in
the outbox.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fedse.config.schema import History
from fedse.errors import StoreError, boundary
from fedse.lazy import Lazy
from fedse.store.buffer_schema import open_file, transaction
from fedse.store.database import parse_row
from fedse.store.erasure import Erasures
from fedse.store.exported import Exports
from fedse.store.games import KEPT, TRAINING
from fedse.store.games import Played as Played
from fedse.store.games import RolloutPart as RolloutPart
from fedse.store.games import Tally as Tally
from fedse.store.old_episodes import OldEpisodes
from fedse.store.outbox import Outbox
from fedse.store.parts import keep_part, stored_part
from fedse.store.resealing import fitting_seal
from fedse.store.rewrite import rewrite_episodes, stored_episodes
from fedse.store.sealing import UNSEALED, Body, Seal
from fedse.store.sums import Sums
from fedse.store.sweeping import finish_sweep, is_unswept, note_unswept, sweep
from fedse.types import Task, Trajectory

GAME = "round, split, position, env, task, seed, outcome"
AS_PLAYED = "experiment = ? ORDER BY round, split DESC, position"


class Buffer:
    """The open store of one client; an episode passes `redact` before it is written.

    `subject_of` names the person or case that a task is about, and `seal` is how texts are stored.
    """

    def __init__(
        self,
        path: Path,
        *,
        redact: Callable[[Trajectory], Trajectory] = lambda episode: episode,
        subject_of: Callable[[Task], str | None] = lambda task: None,
        seal: Seal = UNSEALED,
    ) -> None:
        with boundary(StoreError, f"buffer {path}"):
            self._db = open_file(path)
            self._seal = fitting_seal(self._db, seal)
            finish_sweep(self._db)
        self.redact, self.subject_of = redact, subject_of
        self.outbox, self.sums = Outbox(self._db), Sums(self._db)
        self.erasures = Erasures(self._db, self._seal, subject_of)
        self.exports = Exports(self._db, self._seal)
        self.old = OldEpisodes(self._db, self._seal, subject_of)

    def add(self, episodes: Sequence[Trajectory], *, experiment: str) -> None:
        """All `episodes` are stored, in one transaction, unless they already were."""
        rows = [
            self._lesson_row(episode, experiment)
            for episode in map(self.redact, episodes)
            if not self.erasures.is_forgotten(self.subject_of(episode.task))
        ]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO trajectory (content, experiment, round, env, task, split, seed,"
                " outcome, policy, subject, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (content) DO NOTHING",
                rows,
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO sighting VALUES (?, ?, ?)",
                [(experiment, round, content) for content, _, round, *_ in rows],
            )

    def _lesson_row(self, episode: Trajectory, experiment: str) -> tuple[Any, ...]:
        task, content = episode.task, self._seal.hide(episode.content_digest)
        return (
            content,
            experiment,
            episode.round,
            task.env,
            self._seal.hide(task.id),
            task.split,
            episode.seed,
            episode.outcome,
            episode.policy,
            self._about(task),
            self._seal.close(episode.model_dump_json(), ("trajectory", content)),
        )

    def _about(self, task: Task) -> str | None:
        subject = self.subject_of(task)
        return None if subject is None else self._seal.hide(subject)

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
    ) -> Sequence[Trajectory]:
        """D_train(round), oldest first: all there is but what later rounds of it brought.

        An episode is read when it is looked at, so there may be more than fit into memory.
        """
        query = f"SELECT id FROM trajectory WHERE {KEPT[history]} ORDER BY id"
        rows = self._db.execute(query, {"experiment": experiment, "round": round})
        ids = array("q", (number for (number,) in rows))
        return Lazy(len(ids), lambda place: self._lesson(ids[place]))

    def _lesson(self, number: int) -> Trajectory:
        query = "SELECT content, body FROM trajectory WHERE id = ?"
        content, body = self._db.execute(query, (number,)).fetchone()
        return self._episode(body, "trajectory", content)

    def record_played(
        self, episodes: Sequence[Trajectory], *, experiment: str, bodies: bool, record: str = ""
    ) -> None:
        """How each episode ended is on record, with all that was said in it if `bodies`.

        `record` is the name they are kept under instead of the split of their tasks. A game played
        again replaces its earlier record.
        """
        places: Counter[tuple[int, str]] = Counter()
        rows = []
        for episode in map(self.redact, episodes):
            task, place = episode.task, (episode.round, record or episode.task.split)
            key = (experiment, *place, places[place])
            text = episode.model_dump_json() if bodies else None
            body = None if text is None else self._seal.close(text, ("played", *key))
            facts = (task.env, self._seal.hide(task.id), episode.seed, episode.outcome)
            rows.append((*key, *facts, self._about(task), body))
            places[place] += 1
        with self._transaction():
            marks = ", ".join("?" * 10)
            self._db.executemany(f"INSERT OR REPLACE INTO played VALUES ({marks})", rows)

    def played(self, experiment: str) -> Iterator[Played]:
        """All games on record, in the order they were played."""
        query = f"SELECT {GAME}, body FROM played WHERE {AS_PLAYED}"
        for *row, body in self._db.execute(query, (experiment,)):
            key = (experiment, *row[:3])
            yield self._game((*row, self._episode(body, "played", *key) if body else None))

    def tallies(self, experiment: str, *, before: int) -> dict[Task, Tally]:
        """How the games of each training task ended in the rounds before that one."""
        rows = self._db.execute(
            "SELECT env, task, count(*), sum(outcome = 'success') FROM played WHERE experiment = ?"
            f" AND {TRAINING} AND round < ? AND outcome <> 'broken' GROUP BY env, task",
            (experiment, before),
        )
        return {
            Task(env=env, id=self._seal.show(task), split="train"): Tally(tries, won)
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
            Task(env=env, id=self._seal.show(task), split="train"): frozenset(
                map(self._seal.show, contents.split(","))
            )
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
            "SELECT round, split, position, body FROM played"
            " WHERE experiment = ? AND round BETWEEN ? AND ?"
            f" AND {TRAINING} AND outcome = 'failure' AND body NOT NULL"
            " ORDER BY round DESC, position DESC",
            (experiment, first, round),
        )
        found: dict[str, Trajectory] = {}
        for *place, body in rows:
            if len(found) == most:
                break
            episode = self._episode(body, "played", experiment, *place)
            if episode.turns:
                found.setdefault(episode.content_digest, episode)
        return list(reversed(found.values()))

    def held_out(self, experiment: str, round: int, record: str = "test") -> Iterator[Played]:
        """The games of a round on this record in their order, without what was said in them."""
        of_round = "experiment = ? AND round = ? AND split = ? ORDER BY position"
        return self._on_record(of_round, experiment, round, record)

    def experiments(self) -> tuple[str, ...]:
        """The experiments there is an episode of, in order of name."""
        rows = self._db.execute(
            "SELECT experiment FROM played UNION SELECT experiment FROM trajectory ORDER BY 1"
        )
        return tuple(name for (name,) in rows)

    def games(self, experiment: str) -> Iterator[Played]:
        """As `played`, without what was said."""
        return self._on_record(AS_PLAYED, experiment)

    def kept(self, experiment: str) -> Iterator[Played]:
        """The games learned from, oldest first, without what was said; round 0 = demonstrations."""
        rows = self._db.execute(
            "SELECT round, split, row_number() OVER (PARTITION BY round ORDER BY id) - 1, env,"
            " task, seed, outcome, NULL FROM trajectory WHERE experiment = ? ORDER BY id",
            (experiment,),
        )
        yield from map(self._game, rows)

    def said(self, experiment: str, game: Played) -> Trajectory | None:
        """The whole episode of a game on record, where it was kept."""
        place, task = (experiment, *game[:3]), self._seal.hide(game.task)
        row = self._db.execute(
            "SELECT body FROM played WHERE experiment = ? AND round = ? AND split = ?"
            " AND position = ? AND seed = ? AND body IS NOT NULL",
            (*place, game.seed),
        ).fetchone()
        if row:
            return self._episode(row[0], "played", *place)
        row = self._db.execute(
            "SELECT content, body FROM trajectory WHERE experiment = ? AND round = ? AND task = ?"
            " AND seed = ?",
            (experiment, game.round, task, game.seed),
        ).fetchone()
        return self._episode(row[1], "trajectory", row[0]) if row else None

    def keep_part(self, part: RolloutPart, episodes: Sequence[Trajectory]) -> None:
        """The games of `part` are durable; parts of any other round are gone."""
        keep_part(self._db, self._seal, part, map(self.redact, episodes))

    def part(self, part: RolloutPart) -> list[Trajectory] | None:
        """The games of exactly this part, if they were kept."""
        return stored_part(self._db, self._seal, part)

    def episodes(self) -> Iterator[Trajectory]:
        """Every episode whose text is stored; one that was learned from may come twice."""
        return stored_episodes(self._db, self._seal)

    def rewrite(self) -> int:
        """Every stored episode has passed `redact`; how many were changed by it.

        No byte of what was replaced is left in the file or its log.
        """
        with self._transaction():
            changed = rewrite_episodes(self._db, self._seal, self.redact)
            if changed:
                note_unswept(self._db, "redaction")
        if is_unswept(self._db):
            sweep(self._db)
        return changed

    def close(self) -> None:
        self._db.close()

    def _episode(self, body: Body, *row: object) -> Trajectory:
        return parse_row(Trajectory, self._seal.open(body, row), self._db.path)

    def _on_record(self, which: str, *given: object) -> Iterator[Played]:
        """Games without what was said in them."""
        rows = self._db.execute(f"SELECT {GAME}, NULL FROM played WHERE {which}", given)
        yield from map(self._game, rows)

    def _game(self, row: Sequence[Any]) -> Played:
        game = Played._make(row)
        return game._replace(task=self._seal.show(game.task))

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._db)
