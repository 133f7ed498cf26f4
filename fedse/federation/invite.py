"""One signed file per site: the federation, what was agreed, an expiry, and a one-time number.

The signature proves that nothing in the file was changed. Only the fingerprint of the signing key
proves who signed it; the site gets it over another channel (a telephone call) and enters it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from fedse.errors import ConfigError, MachineError, boundary
from fedse.store.files import OWNER_ONLY, write_durably
from fedse.types import Record, canonical_json

VERSION = 1
# Makes sure that a signature is valid for nothing else.
INVITE_PURPOSE = b"fedse invite 1\n"
# An invitation has a few kilobytes; nothing longer is read.
MAX_BYTES = 256 * 1024
FINGERPRINT_CHARACTERS = 32


class Invite(Record):
    """What a coordinator offers one site; every field is under the signature."""

    version: int = VERSION
    fedse: str
    """Version of the program that wrote it."""
    federation: str
    experiment: str
    site: str
    """The site's name; the node key enrolled with this invitation can speak only for it."""
    members: tuple[str, ...]
    server: str
    """host:port of the fleet proxy."""
    ca: str
    """PEM of the only authority that a site trusts for the server."""
    settings: dict[str, Any]
    """The experiment without its clients and without the base model's path."""
    agreed: str
    """Digest of what all sites must share; computed from the settings and the list of sites."""
    spec: str
    """Identity of the adapter: base weights and layout."""
    base: str
    """Name of the base model; `spec` identifies it exactly."""
    bundle: str
    """sha256 of the app bundle the server will send; nothing else is unpacked at the site."""
    nonce: str
    issued: int
    expires: int
    """Seconds since 1970."""
    signer: str
    """The coordinator's Ed25519 public key, hex."""


def public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def fingerprint(signer: str) -> str:
    """128 bits of the signing key's sha256 in groups of four, to be read aloud."""
    digest = hashlib.sha256(bytes.fromhex(signer)).hexdigest()[:FINGERPRINT_CHARACTERS]
    return "-".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def write_invite(path: Path, invite: Invite, key: Ed25519PrivateKey) -> Path:
    """`path` holds the signed invitation."""
    fields = invite.model_dump(mode="json")
    signature = key.sign(INVITE_PURPOSE + canonical_json(fields)).hex()
    text = json.dumps({"invite": fields, "signature": signature}, indent=2) + "\n"
    write_durably(path, text.encode(), mode=OWNER_ONLY)
    return path


def read_invite(path: Path, *, trusted: str, now: float) -> Invite:
    """The invitation in `path`: unchanged, signed by the key `trusted`, not expired."""
    fields, signature = _parts(path)
    _require_signature(path, fields, signature)
    try:
        invite = Invite.model_validate_json(canonical_json(fields), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{path}: {where}: {first['msg']}",
            hint="ask for an invitation for this fedse version",
        ) from None
    if invite.version != VERSION:
        raise ConfigError(
            f"{path} is an invitation of version {invite.version}, this fedse reads {VERSION}",
            hint=f"install fedse {invite.fedse}",
        )
    _require_trusted(path, fingerprint(invite.signer), trusted)
    if now >= invite.expires:
        hours = (now - invite.expires) / 3600
        raise ConfigError(
            f"{path} expired {hours:.1f} hours ago",
            hint=f"ask the coordinator for: fedse federation invite {invite.site}",
        )
    return invite


def _parts(path: Path) -> tuple[dict[str, Any], str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise MachineError(f"cannot read invitation {path}: {error.strerror}") from error
    again = "ask the coordinator to send the file again"
    with boundary(ConfigError, f"invitation {path}", hint=again):
        whole = json.loads(data) if len(data) <= MAX_BYTES else None
    match whole:
        case {"invite": dict(fields), "signature": str(signature), **more} if not more:
            return fields, signature
    raise ConfigError(
        f"{path} is not an invitation: expected JSON with exactly invite and signature",
        hint="ask the coordinator for: fedse federation invite SITE",
    )


def _require_signature(path: Path, fields: dict[str, Any], signature: str) -> None:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(fields.get("signer"))))
        key.verify(bytes.fromhex(signature), INVITE_PURPOSE + canonical_json(fields))
    except (InvalidSignature, ValueError):
        raise ConfigError(
            f"{path} was changed after it was signed, or its signature is broken",
            hint="ask the coordinator to send the file again",
        ) from None


def _require_trusted(path: Path, signer: str, trusted: str) -> None:
    if not trusted:
        raise ConfigError(
            f"{path} is signed by the key {signer}; ask the coordinator whether it is theirs",
            hint=f"ask by telephone; if it is theirs, add --fingerprint {signer}",
        )
    if trusted.strip().lower() != signer:
        raise ConfigError(
            f"{path} is signed by the key {signer}, expected {trusted}",
            hint="somebody else made this file: ask the coordinator for theirs",
        )
