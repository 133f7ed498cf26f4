"""The key a ledger is signed with: Ed25519, made once, kept in its owner's folder, mode 0600.

Needs the package `cryptography`. Without it a new ledger is chained but unsigned,
and states that; a signed one is neither continued nor verified without it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedse.errors import ConfigError, StoreError, boundary, is_installed, require_packages
from fedse.store.files import OWNER_ONLY, from_backup, write_durably

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PRIVATE, PUBLIC = "ledger.key", "ledger.pub"


class Signer(NamedTuple):
    """A private key and its public key."""

    public: str
    """The raw public key, 32 bytes in hex."""
    sign: Callable[[bytes], bytes]


def signing_works() -> bool:
    return is_installed("cryptography")


def require_signing() -> None:
    """Ed25519 is available, or the error shows the command that installs it."""
    require_packages("a signed ledger", "cryptography", extra="flower")


def new_signer(folder: Path) -> Signer | None:
    """The key in `folder`, created if there is none; None if nothing can be signed."""
    if not signing_works():
        return None
    with boundary(StoreError, f"ledger key in {folder}"):
        if not (folder / PRIVATE).exists():
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import (
                Encoding,
                NoEncryption,
                PrivateFormat,
            )

            form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            made = Ed25519PrivateKey.generate().private_bytes(*form)
            write_durably(folder / PRIVATE, made, mode=OWNER_ONLY)
        return _signer(folder)


def same_signer(folder: Path, public: str) -> Signer:
    """The key in `folder`, which must be the one that the ledger started with."""
    require_signing()
    if not (folder / PRIVATE).exists():
        raise StoreError(
            f"the ledger in {folder} is signed with key {public[:12]}, but {PRIVATE} is missing",
            hint=_other_ledger(folder),
        )
    with boundary(StoreError, f"ledger key {folder / PRIVATE}", hint=_other_ledger(folder)):
        signer = _signer(folder)
    if signer.public != public:
        raise StoreError(
            f"the ledger in {folder} is signed with key {public[:12]}, "
            f"{PRIVATE} is {signer.public[:12]}",
            hint=_other_ledger(folder),
        )
    return signer


def _other_ledger(folder: Path) -> str:
    begin = f"begin a new ledger by moving ledger.jsonl, {PRIVATE} and {PUBLIC} away"
    return f"{from_backup(folder / PRIVATE)}, or {begin}"


def read_public(path: Path) -> str:
    """The public key in a PEM file, as a ledger's first line writes it."""
    again = f"openssl pkey -pubout -in {path.with_name(PRIVATE)} -out {path}"
    with boundary(ConfigError, f"public key {path}", hint=again):
        pem = path.read_bytes()
    return public_of(pem, f"public key {path}", hint=again)


def public_of(pem: bytes, what: str, *, hint: str = "openssl pkey -pubout -in KEY") -> str:
    """The public key in PEM text, in hex; an error names it as `what`."""
    require_signing()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    with boundary(ConfigError, what, hint=hint):
        key = load_pem_public_key(pem)
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{what}: expected Ed25519, got {type(key).__name__}", hint=hint)
    return key.public_bytes_raw().hex()


def signer_of(file: Path) -> Signer:
    """The private key in a PEM file without a password."""
    require_signing()
    again = "openssl genpkey -algorithm ed25519 -out FILE makes one"
    with boundary(ConfigError, f"key {file}", hint=again):
        key = _private(file)
    return Signer(key.public_key().public_bytes_raw().hex(), key.sign)


def signed_by(public: str, message: bytes, signature: str) -> bool:
    """Whether `signature` is that key's signature of exactly this message."""
    require_signing()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = bytes.fromhex(signature)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(raw, message)
    except (InvalidSignature, ValueError):
        return False
    # Hex digits may be upper or lower case; only lower case is accepted.
    return raw.hex() == signature


def _private(file: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise StoreError(f"{file}: expected an Ed25519 key, got {type(key).__name__}")
    return key


def _signer(folder: Path) -> Signer:
    key = _private(folder / PRIVATE)
    if not (folder / PUBLIC).exists():
        write_durably(folder / PUBLIC, _public_pem(key), mode=OWNER_ONLY)
    return Signer(key.public_key().public_bytes_raw().hex(), key.sign)


def _public_pem(key: "Ed25519PrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form)
