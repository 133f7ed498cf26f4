"""One signed file per site: the federation, what was agreed, an expiry, and a one-time number.

The signature proves that nothing in the file was changed. Only the fingerprint of the signing key
proves who signed it; the site gets it over another channel (a telephone call) and enters it.
"""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from fedse.errors import ConfigError, MachineError
from fedse.signed import MAX_BYTES, Paper, fingerprint, signed_fields, signed_text
from fedse.store.files import OWNER_ONLY, write_durably
from fedse.types import Record, canonical_json

VERSION = 1
INVITATION = Paper(
    "invite", "invitation", b"fedse invite 1\n", command="fedse federation invite SITE"
)


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


def write_invite(path: Path, invite: Invite, key: Ed25519PrivateKey) -> Path:
    """`path` holds the signed invitation."""
    text = signed_text(INVITATION, invite.model_dump(mode="json"), key)
    write_durably(path, text, mode=OWNER_ONLY)
    return path


def read_invite(path: Path, *, trusted: str, now: float) -> Invite:
    """The invitation in `path`: unchanged, signed by the key `trusted`, not expired."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise MachineError(f"cannot read invitation {path}: {error.strerror}") from error
    fields = signed_fields(INVITATION, data, str(path))
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
