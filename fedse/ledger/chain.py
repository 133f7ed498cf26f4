"""A ledger: an append-only file in which no line can be changed, moved or removed unnoticed.

A line is canonical JSON with the hash of the line before it, its own hash and an Ed25519
signature of that; the first names the public key, so the file can be verified alone. A chain
cannot show that its last lines were cut off: this needs the owner's database
(fedse.ledger.record), or a head, the last line's hash, that another party was given.

A line is on disk before `append` returns. A write that was cut short is repaired when the ledger
is next opened, and no complete line is lost by that.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

from pydantic import ValidationError

from fedse.errors import StoreError, boundary
from fedse.ledger.keys import Signer, new_signer, same_signer, signed_by
from fedse.store.files import sync_folder
from fedse.store.lock import take_lock
from fedse.types import Clock, Record, canonical_json, digest_of

FILE = "ledger.jsonl"
FORMAT = 1
GENESIS = "genesis"
Role = Literal["server", "client", "region", "service"]
ROLES = get_args(Role)
BEFORE_ALL = "0" * 64
"""The previous hash that the first line names."""
PATIENCE_SECONDS, LOOK_SECONDS = 10.0, 0.02
"""Writing a line takes milliseconds; a process that holds the lock longer is not writing one."""

KEPT_LEDGERS, KEPT_BYTES = 16, 1 << 20
"""How many ledgers, and how long ones, a process keeps in memory after it has verified them."""

Facts = Mapping[str, Any]


class Entry(Record):
    """One line."""

    index: int
    time: float
    """Seconds since 1970, by the owner's clock."""
    kind: str
    facts: dict[str, Any]
    previous: str
    hash: str
    """Of all above."""
    signature: str | None
    """None = the ledger is unsigned: no key could be used when it began."""

    @property
    def content(self) -> dict[str, Any]:
        """What the hash covers."""
        names = ("index", "time", "kind", "facts", "previous")
        return {name: getattr(self, name) for name in names}

    @property
    def text(self) -> bytes:
        """The line itself, without its line end."""
        return canonical_json({**self.content, "hash": self.hash, "signature": self.signature})

    @property
    def line(self) -> int:
        """Its number in the file, from 1."""
        return self.index + 1


class Finding(NamedTuple):
    """The first thing that is wrong with a ledger."""

    line: int
    """From 1, as editors count."""
    reason: str


class Examined(NamedTuple):
    entries: tuple[Entry, ...]
    """All lines before the first bad one."""
    torn: bytes
    """Bytes after the last line end: a write that was cut short."""
    finding: Finding | None


_VERIFIED: dict[Path, tuple[int, bytes, tuple[Entry, ...]]] = {}
"""The beginning of a ledger that was verified: its length, its SHA-256 and its lines."""


def seal(
    before: Entry | None, kind: str, facts: Facts, *, time: float, signer: Signer | None
) -> Entry:
    """The line that follows `before`."""
    content: dict[str, Any] = {
        "index": before.index + 1 if before else 0,
        "time": time,
        "kind": kind,
        "facts": dict(facts),
        "previous": before.hash if before else BEFORE_ALL,
    }
    hashed = digest_of(content)
    signature = signer.sign(_message(hashed)).hex() if signer else None
    return Entry(**content, hash=hashed, signature=signature)


def examine(data: bytes, *, after: Sequence[Entry] = ()) -> Examined:
    """The lines of a ledger up to the first that was altered; `data` follows the lines `after`."""
    *lines, torn = data.split(b"\n")
    entries = [*after]
    for number, line in enumerate(lines, start=len(entries) + 1):
        entry = _read(line)
        if entry is None:
            return Examined(
                tuple(entries), torn, Finding(number, "is not a ledger line as written")
            )
        reason = _fault(entry, entries)
        if reason:
            return Examined(tuple(entries), torn, Finding(number, reason))
        entries.append(entry)
    return Examined(tuple(entries), torn, None)


def _examine_further(path: Path, data: bytes) -> Examined:
    """What `examine` says. A site asks at every answer, so lines whose bytes this process has
    verified before, and which are unchanged in `data`, are not verified again."""
    size, digest, known = _VERIFIED.pop(path, (0, b"", ()))
    if hashlib.sha256(data[:size]).digest() != digest:
        size, known = 0, ()
    examined = examine(data[size:], after=known)
    whole = len(data) - len(examined.torn)
    if examined.finding is None and whole <= KEPT_BYTES:
        _VERIFIED[path] = (whole, hashlib.sha256(data[:whole]).digest(), examined.entries)
    for oldest in [*_VERIFIED][:-KEPT_LEDGERS]:
        _VERIFIED.pop(oldest, None)
    return examined


def sealed_by(entry: Entry, key: str) -> bool:
    """Whether this line alone is as the owner of that public key wrote it."""
    return digest_of(entry.content) == entry.hash and not _signature_fault(entry, key)


def read_ledger(path: Path) -> bytes:
    """The file's bytes, read while no line is being written."""
    with boundary(StoreError, f"ledger {path}"), path.open("rb") as file:
        _lock(file, fcntl.LOCK_SH, path)
        return file.read()


class Ledger:
    """The ledger of one owner in its folder, open for writing; created if there was none."""

    def __init__(self, folder: Path, *, role: Role, name: str, clock: Clock) -> None:
        self.path, self._clock = folder / FILE, clock
        with self._locked() as file:
            entries = self._load(file)
            if entries:
                key = entries[0].facts["key"]
                self._signer = same_signer(folder, key) if key is not None else None
                return
            self._signer = new_signer(folder)
            key = self._signer.public if self._signer else None
            self._write(file, GENESIS, {"format": FORMAT, "role": role, "name": name, "key": key})
            sync_folder(folder)

    def append(self, kind: str, facts: Facts) -> Entry:
        """The line is on disk."""
        with self._locked() as file:
            if file.seek(0, os.SEEK_END) != self._size:  # another process of this owner wrote
                self._load(file)
            return self._write(file, kind, facts)

    def append_once(self, kind: str, facts: Facts, *, same: Callable[[Entry], bool]) -> None:
        """The line is on disk, unless one that is the `same` already was."""
        with self._locked() as file:
            if not any(map(same, self._load(file))):
                self._write(file, kind, facts)

    def read(self) -> tuple[Entry, ...]:
        """All lines, verified."""
        with self._locked() as file:
            return self._load(file)

    def _load(self, file: BinaryIO) -> tuple[Entry, ...]:
        file.seek(0)
        examined = _repair(file, _examine_further(self.path, file.read()))
        if examined.finding:
            line, reason = examined.finding
            raise StoreError(
                f"ledger {self.path}, line {line} {reason}",
                hint="find out who changed it; to continue with a new ledger, move it away",
            )
        self._last = examined.entries[-1] if examined.entries else None
        self._size = file.seek(0, os.SEEK_END)
        return examined.entries

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


def _message(hashed: str) -> bytes:
    """The bytes that are signed, marked so that the signature fits nothing but a ledger line."""
    return b"fedse ledger 1\n" + hashed.encode()


def _read(line: bytes) -> Entry | None:
    """The entry these exact bytes were written for."""
    try:
        entry = Entry.model_validate(json.loads(line), strict=True)
        return entry if entry.text == line else None
    except (ValueError, ValidationError, RecursionError):
        return None


def _fault(entry: Entry, before: list[Entry]) -> str:
    if digest_of(entry.content) != entry.hash:
        return "was changed: its hash is not that of its content"
    if entry.index != len(before):
        moved = "lines were removed, inserted or swapped"
        return f"has index {entry.index}, expected {len(before)}: {moved}"
    if entry.previous != (before[-1].hash if before else BEFORE_ALL):
        return "does not follow the line before it: one of them was replaced"
    if not before:
        return _genesis_fault(entry) or _signature_fault(entry, entry.facts["key"])
    if entry.kind == GENESIS:
        return "begins the ledger a second time"
    return _signature_fault(entry, before[0].facts["key"])


def _genesis_fault(entry: Entry) -> str:
    if entry.kind != GENESIS or set(entry.facts) != {"format", "role", "name", "key"}:
        return f"does not begin a ledger: it is of kind {entry.kind!r}"
    if entry.facts["format"] != FORMAT:
        return f"has ledger format {entry.facts['format']!r}, this program reads {FORMAT}"
    if not isinstance(entry.facts["key"], str | None):
        return "names no key"
    if entry.facts["role"] not in ROLES:
        return f"names the role {entry.facts['role']!r}, expected {' or '.join(ROLES)}"
    return ""


def _signature_fault(entry: Entry, key: str | None) -> str:
    if key is None:
        return "" if entry.signature is None else "is signed in a ledger that names no key"
    if entry.signature is None:
        return "is not signed"
    if not signed_by(key, _message(entry.hash), entry.signature):
        return f"is not signed with the ledger's key {key[:12]}"
    return ""


def _repair(file: BinaryIO, examined: Examined) -> Examined:
    """The file ends with a whole line; the remains of a write that was cut short are gone."""
    if not examined.torn or examined.finding:
        return examined
    file.seek(0)
    whole = examine(file.read() + b"\n")
    if whole.finding is None:  # only its line end was missing
        _append_durably(file, b"\n")
        return whole
    file.truncate(file.seek(0, os.SEEK_END) - len(examined.torn))
    os.fsync(file.fileno())
    return examined._replace(torn=b"")


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
