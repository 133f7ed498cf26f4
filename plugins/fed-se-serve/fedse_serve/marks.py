"""Keyed digests: what stands in the records for a person's name, for tokens and for secrets.

The key is a file of the service's folder. Without it, nobody can try names on a digest.
"""

import hashlib
import hmac
import os
import secrets
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from fedse.errors import StoreError, boundary
from fedse.redact.spans import CONSONANTS
from fedse.store.files import OWNER_ONLY, from_backup, write_durably

KEY_FILE = "service.key"
KEY_BYTES = 32
MARK_BYTES = 16
TASK_LENGTH = 2 * MARK_BYTES
"""Characters of the name that a session is learned from under."""
LETTERS = 6
"""Of a pseudonym: 20^6 = 64 million of them, so that two in a session do not coincide."""


class Marks:
    """Digests under one key; each purpose has digests of its own."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._ids = self._derived("tokens")

    def person(self, name: str) -> str:
        return self._derived("person", name).hex()

    def task(self, session: str) -> str:
        """The name under which a session is learned from."""
        return self._derived("task", session)[:MARK_BYTES].hex()

    def feedback(self, *content: str) -> str:
        """Equal for equal content, in the form of a UUID."""
        return str(UUID(bytes=self._derived("feedback", *content)[:16]))

    def is_held_out(self, who: str, share: float) -> bool:
        """Whether the sessions of `who` are among the `share` for evaluation; always the same."""
        drawn = int.from_bytes(self._derived("held out", who)[:8], "big")
        return drawn < share * 2**64

    def of_ids(self, ids: Sequence[int]) -> bytes:
        """Equal for equal tokens."""
        data = array("I", ids).tobytes()
        return hashlib.blake2b(data, key=self._ids, digest_size=MARK_BYTES).digest()

    def letters(self, session: str, value: str) -> str:
        """What tells the pseudonym of a value from those of other values in the session."""
        number = int.from_bytes(self._derived("pseudonym", session, value)[:8], "big")
        return "".join(_digits(number))

    def _derived(self, *parts: str) -> bytes:
        # Each part with its length, so that no two lists of parts are the same bytes.
        coded = [part.encode("utf-8", "surrogatepass") for part in parts]
        data = b"".join(len(part).to_bytes(8, "big") + part for part in coded)
        return hmac.digest(self._key, data, "sha256")


def _digits(number: int) -> Iterator[str]:
    for _ in range(LETTERS):
        number, place = divmod(number, len(CONSONANTS))
        yield CONSONANTS[place]


def open_marks(folder: Path) -> Marks:
    """The marks of the service in `folder`, with a new key if it had none."""
    path = folder / KEY_FILE
    with boundary(StoreError, f"key {path}", hint=from_backup(path)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            if (folder / "service.db").exists():
                raise StoreError(
                    f"there are records in {folder}, but their key {path.name} is missing",
                    hint=from_backup(path),
                )
            _make(path)
        if path.stat().st_mode & 0o077:
            raise StoreError(f"key {path} can be read by others", hint=f"chmod 600 {path}")
        key = bytes.fromhex(path.read_text(encoding="ascii"))
        if len(key) != KEY_BYTES:
            raise StoreError(
                f"key {path} has {len(key)} bytes, expected {KEY_BYTES}", hint=from_backup(path)
            )
    return Marks(key)


def _make(path: Path) -> None:
    """A key is in `path`; of two processes that make one at a time, both have the first."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    write_durably(draft, secrets.token_hex(KEY_BYTES).encode(), mode=OWNER_ONLY)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
