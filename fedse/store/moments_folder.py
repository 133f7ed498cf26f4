"""The moments of an optimiser that belongs to a whole run: one file per round, the last two."""

from pathlib import Path
from typing import NamedTuple

from fedse.store.files import OWNER_ONLY, write_durably


class MomentsFolder(NamedTuple):
    """Where they are kept; it is made when there is something to keep."""

    path: Path

    def before(self, round: int) -> bytes | None:
        """The moments after the newest round before this one."""
        earlier = [number for number in self._rounds() if number < round]
        return self._file(max(earlier)).read_bytes() if earlier else None

    def keep(self, round: int, moments: bytes) -> None:
        """They are durable, and so are those the round began with: it may be done again."""
        self.path.mkdir(exist_ok=True, mode=0o700)
        write_durably(self._file(round), moments, mode=OWNER_ONLY)
        begun = max((number for number in self._rounds() if number < round), default=0)
        for number in self._rounds():
            if number < begun:
                self._file(number).unlink()

    def _rounds(self) -> list[int]:
        return [int(file.stem) for file in self.path.glob("*.safetensors") if file.stem.isdecimal()]

    def _file(self, round: int) -> Path:
        return self.path / f"{round}.safetensors"
