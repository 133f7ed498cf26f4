"""An owner's ledger, open for writing.

A line is on disk before `append` returns. A write that was cut short is repaired when the ledger
is next opened, and no complete line is lost by that.

A ledger grows for years and is opened for every answer. So its first line and the last ones are
verified when it is opened, and an earlier line when it is looked up. fedse.ledger.verifying looks
at all of them.
"""

import fcntl
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fedse.errors import StoreError, boundary
from fedse.ledger.chain import (
    FILE,
    FORMAT,
    GENESIS,
    Entry,
    Facts,
    Finding,
    Role,
    examine,
    examine_recent,
    read_line,
    seal,
    sealed_by,
)
from fedse.ledger.keys import new_signer, same_signer
from fedse.store.files import sync_folder
from fedse.store.lock import take_lock
from fedse.types import Clock, Record

PATIENCE_SECONDS, LOOK_SECONDS = 10.0, 0.02
"""Writing a line takes milliseconds; a process that holds the lock longer is not writing one."""


class Ledger:
    """The ledger of one owner in its folder; created if there was none."""

    def __init__(self, folder: Path, *, role: Role, name: str, clock: Clock) -> None:
        self.path, self._clock = folder / FILE, clock
        with self._locked() as file:
            first = self._load(file)
            if first is not None:
                self._key = first.facts["key"]
                self._signer = same_signer(folder, self._key) if self._key is not None else None
                return
            self._signer = new_signer(folder)
            self._key = self._signer.public if self._signer else None
            facts = {"format": FORMAT, "role": role, "name": name, "key": self._key}
            self._write(file, GENESIS, facts)
            sync_folder(folder)

    def append(self, kind: str, facts: Facts) -> Entry:
        """The line is on disk."""
        with self._locked() as file:
            self._catch_up(file)
            return self._write(file, kind, facts)

    def append_once(
        self, kind: str, content: Record, *, naming: str, by: Sequence[str] = ()
    ) -> None:
        """The line is on disk, unless one of its kind with the same facts was.

        Of the facts those named in `by` decide, or else all. Such a line contains `naming`.
        """
        facts = content.model_dump(mode="json")

        def same(line: Entry) -> bool:
            return line.kind == kind and all(line.facts.get(n) == facts[n] for n in by or facts)

        with self._locked() as file:
            self._catch_up(file)
            if not any(map(same, self._containing(file, naming))):
                self._write(file, kind, facts)

    def last(
        self, kind: str, *, naming: str = "", where: Callable[[Entry], bool] = lambda line: True
    ) -> Entry | None:
        """The newest line of that kind that contains `naming` and is as asked for."""
        with self._locked() as file:
            self._catch_up(file)
            lines = self._containing(file, naming or f'"kind":"{kind}"')
            return next((line for line in lines if line.kind == kind and where(line)), None)

    def read(self) -> tuple[Entry, ...]:
        """All lines, verified."""
        with self._locked() as file:
            self._catch_up(file)
            with _mapped(file) as data:
                examined = examine(data[:])
        self._require_sound(examined.finding)
        return examined.entries

    def _containing(self, file: BinaryIO, text: str) -> Iterator[Entry]:
        """The lines that contain `text`, the newest first; each is verified by itself."""
        with _mapped(file) as data:
            start = len(data)
            while (found := data.rfind(text.encode(), 0, start)) >= 0:
                start = data.rfind(b"\n", 0, found) + 1
                entry = read_line(data[start : data.find(b"\n", found)])
                if entry is None or not sealed_by(entry, self._key):
                    self._require_sound(examine(data[:]).finding)
                assert entry is not None, "an examined line can be read"
                yield entry

    def _catch_up(self, file: BinaryIO) -> None:
        if file.seek(0, os.SEEK_END) != self._size:  # another process of this owner wrote
            self._load(file)

    def _load(self, file: BinaryIO) -> Entry | None:
        """The file is whole, and its first and last lines are sound; the first, if there is one."""
        with _mapped(file) as data:
            examined = examine_recent(data)
        if examined.torn and not examined.finding:
            _repair(file, examined.torn)
            return self._load(file)
        self._require_sound(examined.finding)
        self._last = examined.entries[-1] if examined.entries else None
        self._size = file.seek(0, os.SEEK_END)
        return examined.entries[0] if examined.entries else None

    def _require_sound(self, finding: Finding | None) -> None:
        if finding:
            raise StoreError(
                f"ledger {self.path}, line {finding.line} {finding.reason}",
                hint="find out who changed it; to continue with a new ledger, move it away",
            )

    def _write(self, file: BinaryIO, kind: str, facts: Facts) -> Entry:
        entry = seal(self._last, kind, facts, time=round(self._clock(), 3), signer=self._signer)
        _append_durably(file, entry.text + b"\n")
        self._last, self._size = entry, file.tell()
        return entry

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with boundary(StoreError, f"ledger {self.path}"):
            opened = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            with open(opened, "r+b") as file:
                _lock(file, fcntl.LOCK_EX, self.path)
                yield file


def read_ledger(path: Path) -> bytes:
    """The file's bytes, read while no line is being written."""
    with boundary(StoreError, f"ledger {path}"), path.open("rb") as file:
        _lock(file, fcntl.LOCK_SH, path)
        return file.read()


@contextmanager
def _mapped(file: BinaryIO) -> Iterator[bytes | mmap.mmap]:
    """The file's bytes, of which only those that are looked at are read."""
    if not file.seek(0, os.SEEK_END):
        yield b""
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _repair(file: BinaryIO, torn: bytes) -> None:
    """The file ends with a whole line; the remains of a write that was cut short are gone."""
    if read_line(torn) is not None:  # only its line end was missing
        _append_durably(file, b"\n")
        return
    file.truncate(file.seek(0, os.SEEK_END) - len(torn))
    os.fsync(file.fileno())


def _append_durably(file: BinaryIO, data: bytes) -> None:
    file.seek(0, os.SEEK_END)
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _lock(file: BinaryIO, how: int, path: Path) -> None:
    if not take_lock(file, how, seconds=PATIENCE_SECONDS, every=LOOK_SECONDS):
        raise StoreError(
            f"ledger {path} was held by another process for {PATIENCE_SECONDS:.0f} s",
            hint=f"lsof {path}",
        )
