"""The games of a round that is under way, part by part, in the buffer's file."""

import json
from collections.abc import Iterable, Iterator

from fedse.errors import StoreError, boundary
from fedse.store.buffer_schema import transaction
from fedse.store.database import Database
from fedse.store.games import RolloutPart
from fedse.store.sealing import Seal
from fedse.types import Trajectory

PART = "experiment, round, split, start, identity, body"


def part_text(episodes: Iterable[Trajectory]) -> str:
    """The games of a part as JSON, but not the model's own, which cannot hold NaN or half a pair.

    Half a surrogate pair is what a world may say.
    """
    return json.dumps([episode.model_dump(mode="json") for episode in episodes])


def part_games(text: str) -> list[Trajectory]:
    return [Trajectory.model_validate(episode) for episode in json.loads(text)]


def keep_part(db: Database, seal: Seal, part: RolloutPart, games: Iterable[Trajectory]) -> None:
    """The games of `part` are durable; parts of any other round are gone."""
    key = (*part[:4], seal.hide(part.identity))
    row = (*key, seal.close(part_text(games), ("part", *key)))
    with transaction(db):
        db.execute("DELETE FROM part WHERE (experiment, round) <> (?, ?)", part[:2])
        db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def stored_part(db: Database, seal: Seal, part: RolloutPart) -> list[Trajectory] | None:
    """The games of exactly this part, if they were kept."""
    key = (*part[:4], seal.hide(part.identity))
    row = db.execute(
        "SELECT body FROM part WHERE experiment = ? AND round = ? AND split = ?"
        " AND start = ? AND identity = ?",
        key,
    ).fetchone()
    if row is None:
        return None
    with boundary(StoreError, f"games of round {part.round} from {part.start} on"):
        return part_games(seal.open(row[0], ("part", *key)))


def all_parts(db: Database, seal: Seal) -> Iterator[tuple[int, list[Trajectory]]]:
    """The number of each row, and its games."""
    for number, *key, body in db.execute(f"SELECT rowid, {PART} FROM part").fetchall():
        yield number, part_games(seal.open(body, ("part", *key)))
