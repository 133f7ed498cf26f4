"""What stands in a buffer's rows for texts and names: themselves, or what a key makes of them.

With a key, a text is AES-256-GCM ciphertext that opens in its own row only, a name or digest is
AES-SIV ciphertext, equal for equal names, so that rows can still be found and grouped. Both keys
follow from the one that the site keeps (HKDF-SHA256).
"""

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Protocol

from fedse.errors import require_packages
from fedse.types import canonical_json

KEY_BYTES = 32
NONCE_BYTES = 12
"""Random for every text; AES-GCM allows 2^32 of them under one key."""
DERIVED = (32, 64, 8)
"""Bytes of the keys for texts and for names, and of the key's own public name."""

DIGEST = re.compile("[0-9a-f]{64}")

Body = str | bytes
Row = tuple[object, ...]
"""The table and the primary key of a row, as they are stored."""


class BrokenSeal(ValueError):
    """A row does not hold what was written there: it was changed, moved, or made by another key."""


class Seal(Protocol):
    """How texts and names are stored in one buffer."""

    @property
    def key_id(self) -> str:
        """Names the key without telling it; empty = there is none."""
        ...

    def close(self, text: str, row: Row) -> Body:
        """What is stored for a text in that row."""
        ...

    def open(self, body: Body, row: Row) -> str:
        """The text that was stored in that row; anything else is a BrokenSeal."""
        ...

    def hide(self, name: str) -> str:
        """What is stored for a name; the same for the same name."""
        ...

    def show(self, hidden: str) -> str:
        """The name that was hidden."""
        ...


class Unsealed:
    """Without a key everything is stored as it is."""

    key_id = ""

    def close(self, text: str, row: Row) -> Body:
        return text

    def open(self, body: Body, row: Row) -> str:
        if isinstance(body, bytes):
            raise BrokenSeal("a text is encrypted in a buffer that is not")
        return body

    def hide(self, name: str) -> str:
        return name

    def show(self, hidden: str) -> str:
        return hidden


UNSEALED = Unsealed()


class KeyedSeal:
    """Everything is stored as a key of 32 bytes makes it."""

    def __init__(self, key: bytes, *, draw: Callable[[int], bytes] = os.urandom) -> None:
        require_packages("an encrypted buffer", "cryptography", extra="secure")
        # Optional packages are imported only where they are really needed.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

        texts, names, name = _derived(key)
        self._texts, self._names, self._draw = AESGCM(texts), AESSIV(names), draw
        self.key_id = name.hex()

    def close(self, text: str, row: Row) -> Body:
        nonce = self._draw(NONCE_BYTES)
        # Half a surrogate pair cannot be written in UTF-8, and an agent's world may say one.
        data = text.encode("utf-8", "surrogatepass")
        return nonce + self._texts.encrypt(nonce, data, canonical_json(row))

    def open(self, body: Body, row: Row) -> str:
        from cryptography.exceptions import InvalidTag

        if isinstance(body, str):
            raise BrokenSeal("a text is not encrypted in a buffer that is")
        try:
            nonce, rest = body[:NONCE_BYTES], body[NONCE_BYTES:]
            return self._texts.decrypt(nonce, rest, canonical_json(row)).decode(
                "utf-8", "surrogatepass"
            )
        except (InvalidTag, ValueError):
            raise BrokenSeal("a text does not open with this key in this row") from None

    def hide(self, name: str) -> str:
        return urlsafe_b64encode(self._names.encrypt(_packed(name), None)).decode("ascii")

    def show(self, hidden: str) -> str:
        from cryptography.exceptions import InvalidTag

        try:
            sealed = urlsafe_b64decode(hidden.encode("ascii"))
            return _unpacked(self._names.decrypt(sealed, None))
        except (InvalidTag, ValueError):
            raise BrokenSeal("a name does not open with this key") from None


def _packed(name: str) -> bytes:
    """The bytes of a name; a digest takes half as many as it has digits."""
    if DIGEST.fullmatch(name):
        return b"#" + bytes.fromhex(name)
    return b"=" + name.encode("utf-8", "surrogatepass")


def _unpacked(data: bytes) -> str:
    if data.startswith(b"#"):
        return data[1:].hex()
    return data[1:].decode("utf-8", "surrogatepass")


def _derived(key: bytes) -> list[bytes]:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
    made = HKDF(SHA256(), sum(DERIVED), salt=None, info=b"fedse buffer 1").derive(key)
    ends = [sum(DERIVED[: place + 1]) for place in range(len(DERIVED))]
    return [made[end - size : end] for end, size in zip(ends, DERIVED, strict=True)]
