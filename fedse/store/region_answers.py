"""What a region must still know after it was killed: its open round, and what it has answered.

An answer is durable before it leaves, so the same question is answered with the same bytes. What
belongs to earlier rounds is removed when a later one begins.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from fedse.aggregate.region_report import RegionReport
from fedse.committed import RoundResult
from fedse.errors import StoreError, boundary
from fedse.store.files import from_backup, write_durably
from fedse.types import ClientStats, Record

OPEN = "open.json"


class OpenRegionRound(Record):
    """A round whose votes are here, and whose adapter the coordinator above has not told yet."""

    request: str
    """Digest of the question that the votes answer."""
    report: RegionReport
    result: RoundResult
    """Of this round; until it is known, the adapter after it is the one before it."""


class KeptAnswer(NamedTuple):
    stats: ClientStats
    data: bytes


class RegionAnswers:
    """The files of a region, in a folder of its run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True, mode=0o700)
        self._folder = folder

    def open_round(self) -> OpenRegionRound | None:
        """The newest round that was begun; None before the first."""
        file = self._folder / OPEN
        if not file.is_file():
            return None
        with boundary(StoreError, f"{file}", hint=from_backup(file)):
            return OpenRegionRound.model_validate_json(file.read_bytes())

    def begin(self, begun: OpenRegionRound) -> None:
        """The round is the newest, and nothing is kept of those before it."""
        write_durably(self._folder / OPEN, begun.model_dump_json().encode())
        for file in self._folder.glob("*-*.*"):
            if not file.name.startswith(f"{begun.result.index}-"):
                file.unlink()

    def find(self, round: int, key: str) -> KeptAnswer | None:
        """What was answered to this question; None = nothing was, or it was of an earlier round."""
        numbers, data = self._files(round, key)
        if not numbers.is_file():
            return None
        with boundary(StoreError, f"{numbers}", hint=f"remove {numbers}"):
            stats = ClientStats.model_validate_json(numbers.read_bytes())
            return KeptAnswer(stats, data.read_bytes())

    def keep(self, round: int, key: str, answer: KeptAnswer) -> None:
        """It is found from now on."""
        numbers, data = self._files(round, key)
        write_durably(data, answer.data)
        write_durably(numbers, answer.stats.model_dump_json().encode())

    def count(self, round: int) -> int:
        """How many questions of the round were answered."""
        return len([*self._folder.glob(f"{round}-*.json")])

    def _files(self, round: int, key: str) -> tuple[Path, Path]:
        name = f"{round}-{key}"
        return self._folder / f"{name}.json", self._folder / f"{name}.bytes"


def answer_key(question: str, body: bytes) -> str:
    """Of the answer to the question of this digest with these bytes beside it."""
    return hashlib.sha256(question.encode() + body).hexdigest()
