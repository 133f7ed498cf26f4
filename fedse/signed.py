"""Files that a coordinator signs, and by which key one was signed.

The signature proves that nothing in the file was changed. Only the fingerprint of the signing key
proves who signed it; a site got it over another channel (a telephone call).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedse.errors import ConfigError, boundary
from fedse.types import canonical_json

# Such a file has a few kilobytes; nothing longer is read.
MAX_BYTES = 256 * 1024
FINGERPRINT_CHARACTERS = 32
AGAIN = "ask the coordinator to send the file again"


class Paper(NamedTuple):
    """A kind of file that is signed."""

    name: str
    """Of the field that holds what is signed."""
    words: str
    """How a person calls it."""
    purpose: bytes
    """Makes sure that a signature is valid for nothing else."""
    command: str
    """How the coordinator makes one."""


def public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def fingerprint(signer: str) -> str:
    """128 bits of the signing key's sha256 in groups of four, to be read aloud."""
    digest = hashlib.sha256(bytes.fromhex(signer)).hexdigest()[:FINGERPRINT_CHARACTERS]
    return "-".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def signed_text(paper: Paper, fields: Mapping[str, Any], key: Ed25519PrivateKey) -> bytes:
    """The fields with their signature, as they are stored and sent."""
    signature = key.sign(paper.purpose + canonical_json(fields)).hex()
    return (json.dumps({paper.name: fields, "signature": signature}, indent=2) + "\n").encode()


def signed_fields(paper: Paper, data: bytes, source: str) -> dict[str, Any]:
    """What was signed, unchanged; the key that signed it is its field `signer`."""
    with boundary(ConfigError, f"{paper.words} {source}", hint=AGAIN):
        whole = json.loads(data) if len(data) <= MAX_BYTES else None
    match whole:
        case {paper.name: dict(fields), "signature": str(signature), **more} if not more:
            _require_signature(paper, fields, signature, source)
            return fields
    raise ConfigError(
        f"{source} is not an {paper.words}: expected JSON with exactly {paper.name} and signature",
        hint=f"ask the coordinator for: {paper.command}",
    )


def _require_signature(paper: Paper, fields: dict[str, Any], signature: str, source: str) -> None:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(fields.get("signer"))))
        key.verify(bytes.fromhex(signature), paper.purpose + canonical_json(fields))
    except (InvalidSignature, ValueError):
        raise ConfigError(
            f"{source} was changed after it was signed, or its signature is broken", hint=AGAIN
        ) from None
