"""A ledger: an append-only file in which no line can be changed, moved or removed unnoticed.

A line is canonical JSON with the hash of the line before it, its own hash and an Ed25519
signature of that; the first names the public key, so the file can be verified alone. A chain
cannot show that its last lines were cut off: this needs the owner's database
(fedse.ledger.verifying), or a head, the last line's hash, that another party was given.

fedse.ledger.writing writes it.
"""

import json
import mmap
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from fedse.ledger.keys import Signer, signed_by
from fedse.types import Record, canonical_json, digest_of

FILE = "ledger.jsonl"
FORMAT = 1
GENESIS = "genesis"
Role = Literal["server", "client", "region", "service"]
ROLES = get_args(Role)
BEFORE_ALL = "0" * 64
"""The previous hash that the first line names."""
RECENT = 4
"""How many of the last lines are verified whenever the owner opens the ledger."""

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


def examine(data: bytes, *, genesis: Entry | None = None) -> Examined:
    """The lines up to the first that was altered, of a whole ledger or, if the line it begins with
    is given, of its last lines."""
    *lines, torn = data.split(b"\n")
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        entry = read_line(line)
        if entry is None:
            return Examined(
                tuple(entries), torn, Finding(number, "is not a ledger line as written")
            )
        reason = _fault(entry, entries[-1] if entries else None, genesis)
        if reason:
            return Examined(tuple(entries), torn, Finding(number, reason))
        genesis = genesis or entry
        entries.append(entry)
    return Examined(tuple(entries), torn, None)


def examine_recent(data: bytes | mmap.mmap) -> Examined:
    """As `examine`, of the first line and the last ones; those between are not looked at."""
    start = len(data)
    for _ in range(RECENT + 1):
        start = data.rfind(b"\n", 0, max(0, start))
    genesis = read_line(data[: max(0, data.find(b"\n"))])
    if start < 0 or genesis is None or _fault(genesis, None, None):
        return examine(data[:])
    examined = examine(data[start + 1 :], genesis=genesis)
    if examined.finding:  # it is told as the number of the line in the whole file
        return examine(data[:])
    return examined._replace(entries=(genesis, *examined.entries))


def sealed_by(entry: Entry, key: str | None) -> bool:
    """Whether this line alone is as the owner of that public key wrote it; None = without one."""
    return digest_of(entry.content) == entry.hash and not _signature_fault(entry, key)


def _message(hashed: str) -> bytes:
    """The bytes that are signed, marked so that the signature fits nothing but a ledger line."""
    return b"fedse ledger 1\n" + hashed.encode()


def read_line(line: bytes) -> Entry | None:
    """The entry these exact bytes were written for."""
    try:
        entry = Entry.model_validate(json.loads(line), strict=True)
        return entry if entry.text == line else None
    except (ValueError, ValidationError, RecursionError):
        return None


def _fault(entry: Entry, before: Entry | None, genesis: Entry | None) -> str:
    """What is wrong with a line; of the first of some last lines the one before is not known."""
    if digest_of(entry.content) != entry.hash:
        return "was changed: its hash is not that of its content"
    if genesis is None:
        genesis, expected, previous = entry, 0, BEFORE_ALL
    elif before is None:
        expected, previous = entry.index, entry.previous
    else:
        expected, previous = before.index + 1, before.hash
    if entry.index != expected:
        moved = "lines were removed, inserted or swapped"
        return f"has index {entry.index}, expected {expected}: {moved}"
    if entry.previous != previous:
        return "does not follow the line before it: one of them was replaced"
    if entry is genesis:
        return _genesis_fault(entry) or _signature_fault(entry, entry.facts["key"])
    if entry.kind == GENESIS:
        return "begins the ledger a second time"
    return _signature_fault(entry, genesis.facts["key"])


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
