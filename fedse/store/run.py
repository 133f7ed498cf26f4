"""The run directory: what is written, in which order, and what a restart reads back.

A round is committed or abandoned, never half: its adapter is a content-addressed blob on disk
(temporary file, fsync, rename, fsync of the folder) before one SQLite transaction names it, and
only then is the round announced. Everything else in the folder can be made again from these two.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from fedse.aggregate.validate import load_checked, parse_adapter, require_layout
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.errors import AdapterRejected, StoreError, boundary
from fedse.events import Fact, Observer
from fedse.store.database import Database, open_database, parse_row
from fedse.store.files import append_whole, from_backup, write_durably
from fedse.types import Adapter, AdapterSpec, ClientStats

SCHEMA = """
CREATE TABLE IF NOT EXISTS round (
  idx INTEGER PRIMARY KEY, adapter TEXT NOT NULL, result TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS round_adapter ON round (adapter);
CREATE TABLE IF NOT EXISTS evaluation (
  round INTEGER NOT NULL, client TEXT NOT NULL, stats TEXT NOT NULL,
  PRIMARY KEY (round, client)
) STRICT;
CREATE TABLE IF NOT EXISTS validation (
  adapter TEXT NOT NULL, client TEXT NOT NULL, won INTEGER NOT NULL, played INTEGER NOT NULL,
  PRIMARY KEY (adapter, client)
) STRICT;
CREATE TABLE IF NOT EXISTS pardon (
  client TEXT NOT NULL, after INTEGER NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (client, after)
) STRICT;
"""


def open_state(path: Path) -> Database:
    """The run's database at `path`, with all its tables."""
    db = open_database(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(SCHEMA)
    return db


def committed_in(path: Path) -> int:
    """The last committed round of the run in `path`; 0 before there is one."""
    with closing(open_state(path / "state.db")) as db:
        return int(db.execute("SELECT coalesce(max(idx), 0) FROM round").fetchone()[0])


class Pardon(NamedTuple):
    """A client's strikes up to the round `after` no longer count."""

    client: str
    after: int
    reason: str
    """The coordinator's words."""


class StoredRound(NamedTuple):
    """A round, and digests of its blobs."""

    round: int
    adapter: str
    moments: tuple[str, ...]


class Run:
    """An open run directory. Round 0 is the adapter the run began with."""

    def __init__(
        self,
        path: Path,
        config: Config,
        spec: AdapterSpec,
        *,
        clock: Callable[[], float],
        observers: Sequence[Observer] = (),
    ) -> None:
        self.path, self.config, self.spec = path, config, spec
        self._clock, self._observers = clock, tuple(observers)
        self._emitting = threading.Lock()
        with boundary(StoreError, f"run {path}"):
            (path / "blobs").mkdir(parents=True, exist_ok=True)
            self._db = open_state(path / "state.db")

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, adapter: Adapter) -> None:
        """The run has a round 0; a run that has begun keeps the one it has."""
        if self.committed is None:
            self._insert(0, self.store(adapter), None)

    @property
    def committed(self) -> int | None:
        """The last committed round, None before the run has begun."""
        row = self._db.execute("SELECT max(idx) FROM round").fetchone()
        return None if row[0] is None else int(row[0])

    def adapter(self, round: int) -> Adapter:
        """The global adapter after `round`."""
        digest = self.digest(round)
        if not self.blob(digest).exists() and round != self.committed:
            kept = ", ".join(map(str, self.kept_rounds()))
            raise StoreError(
                f"run {self.path.name} no longer keeps the adapter after round {round}, kept are "
                f"those after rounds {kept}",
                hint="name one of these; storage.rounds says how many the next run keeps",
            )
        return self.load(digest)

    def digest(self, round: int) -> str:
        """Of the global adapter after `round`, whether that is still kept or not."""
        row = self._db.execute("SELECT adapter FROM round WHERE idx = ?", (round,)).fetchone()
        if row is None:
            raise StoreError(
                f"run {self.path.name} has no round {round}, committed are 0..{self.committed}",
                hint="fedse runs",
            )
        return str(row[0])

    def has_sent(self, digest: str) -> bool:
        """Whether this was the global adapter after any round; no client can have made it."""
        row = self._db.execute("SELECT 1 FROM round WHERE adapter = ?", (digest,)).fetchone()
        return row is not None

    def recent(self, rounds: int) -> Iterator[RoundResult]:
        """The last committed rounds, at most so many, in order."""
        return self.results(since=(self.committed or 0) + 1 - rounds)

    def stored(self, *, since: int = 0) -> list[StoredRound]:
        """Round 0 and those from `since` on, in order, with the blobs they name."""
        query = (
            "SELECT idx, adapter, json_extract(result, '$.moments') FROM round"
            " WHERE idx = 0 OR idx >= ? ORDER BY idx"
        )
        return [
            StoredRound(round, adapter, tuple(json.loads(moments or "[]")))
            for round, adapter, moments in self._db.execute(query, (since,))
        ]

    def kept_rounds(self) -> list[int]:
        """The rounds whose adapters are on the disk."""
        there = {file.stem for file in (self.path / "blobs").iterdir()}
        rows = self._db.execute("SELECT idx, adapter FROM round ORDER BY idx").fetchall()
        return [round for round, adapter in rows if adapter in there]

    def adapter_folder(self, round: int) -> Path:
        """Where the adapter after `round` is kept as a PEFT folder."""
        return self.path / "adapters" / f"round-{round:03d}"

    def load(self, digest: str) -> Adapter:
        """The stored adapter of that digest, checked against it."""
        with self._blob_intact(digest):
            return _unchanged(
                parse_adapter(self.read(digest), self.spec, self.config.aggregate), digest
            )

    def moments(self, round: int) -> tuple[Adapter, ...]:
        """What the outer optimiser remembered after `round`; nothing where there is none."""
        row = self._db.execute("SELECT result FROM round WHERE idx = ?", (round,)).fetchone()
        if row is None or row[0] is None:
            return ()
        return tuple(map(self._moment, self._result(row[0]).moments))

    def read(self, digest: str) -> bytes:
        with boundary(StoreError, f"blob {digest}", hint=self._resume(self.blob(digest))):
            return self.blob(digest).read_bytes()

    def store(self, adapter: Adapter) -> str:
        """The adapter's bytes are durable under its digest."""
        target = self.blob(adapter.digest)
        if not target.exists():
            write_durably(target, adapter.to_bytes())
        return adapter.digest

    def commit(self, result: RoundResult) -> None:
        """The round counts from here on, whatever happens next; its blobs were stored before."""
        for digest in (result.after, *result.moments):
            if not self.blob(digest).exists():
                raise StoreError(f"round {result.index} names blob {digest}, which is not stored")
        self._insert(result.index, result.after, result.model_dump_json())

    def results(self, *, since: int = 1) -> Iterator[RoundResult]:
        """The committed rounds from that one on, in order."""
        query = "SELECT result FROM round WHERE result IS NOT NULL AND idx >= ? ORDER BY idx"
        rows = self._db.execute(query, (since,))
        for (body,) in rows:
            yield self._result(body)

    def record_eval(self, round: int, client: str, stats: ClientStats) -> None:
        """What a client measured of the adapter after `round` is durable."""
        self._db.execute(
            "INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?)",
            (round, client, stats.model_dump_json()),
        )

    def evals(self, round: int) -> dict[str, ClientStats]:
        rows = self._db.execute(
            "SELECT client, stats FROM evaluation WHERE round = ? ORDER BY client", (round,)
        )
        file = self._db.path
        return {client: parse_row(ClientStats, stats, file) for client, stats in rows}

    def record_validations(self, adapter: str, counts: Mapping[str, tuple[int, int]]) -> None:
        """Per client, games won and played with this adapter are durable, all of them or none."""
        rows = [(adapter, client, *count) for client, count in counts.items()]
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO validation VALUES (?, ?, ?, ?)", rows)

    def validations(self, adapter: str) -> dict[str, tuple[int, int]]:
        rows = self._db.execute(
            "SELECT client, won, played FROM validation WHERE adapter = ? ORDER BY client",
            (adapter,),
        )
        return {client: (won, played) for client, won, played in rows}

    def pardon(self, client: str, *, reason: str) -> Pardon:
        """The client's strikes up to the last committed round are forgiven, durably."""
        granted = Pardon(client, self.committed or 0, reason)
        with boundary(StoreError, f"pardon of {client}"):
            self._db.execute("INSERT OR IGNORE INTO pardon VALUES (?, ?, ?)", granted)
        return granted

    def pardons(self) -> list[Pardon]:
        """All pardons, the earliest first."""
        rows = self._db.execute("SELECT client, after, reason FROM pardon ORDER BY after, client")
        return [Pardon(*row) for row in rows]

    def emit(self, event: str, /, **facts: Fact) -> None:
        """The event is in events.jsonl, then every observer has seen it."""
        entry: dict[str, Fact] = {"time": round(self._clock(), 3), "event": event, **facts}
        # Clients in other processes report through a thread of their own.
        with self._emitting:
            append_whole(self.path / "events.jsonl", (json.dumps(entry) + "\n").encode())
            for observer in self._observers:
                observer(event, entry)

    def close(self) -> None:
        self._db.close()

    def _insert(self, index: int, digest: str, result: str | None) -> None:
        with boundary(StoreError, f"commit of round {index}"):
            self._db.execute("INSERT INTO round VALUES (?, ?, ?)", (index, digest, result))

    def _result(self, body: str) -> RoundResult:
        return parse_row(RoundResult, body, self._db.path)

    def _moment(self, digest: str) -> Adapter:
        # No norm bounds it: a velocity is longer than the updates it is made of.
        data = self.read(digest)
        with self._blob_intact(digest):
            require_layout(data, self.spec)
            return _unchanged(load_checked(lambda: data, self.spec), digest)

    @contextmanager
    def _blob_intact(self, digest: str) -> Iterator[None]:
        """Whatever is wrong with the blob inside is damage of its file."""
        try:
            yield
        except AdapterRejected as error:
            file = self.blob(digest)
            raise StoreError(f"{file} is damaged: {error}", hint=self._resume(file)) from error

    def _resume(self, file: Path) -> str:
        return from_backup(file, then=f"fedse resume {self.path}")

    def blob(self, digest: str) -> Path:
        """The file of that digest, which may have been removed."""
        return self.path / "blobs" / f"{digest}.safetensors"


def _unchanged(adapter: Adapter, digest: str) -> Adapter:
    if adapter.digest != digest:
        raise AdapterRejected(f"it has digest {adapter.digest}, expected {digest}")
    return adapter
