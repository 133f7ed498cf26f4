"""The keys of one sum: from fresh secrets, by X25519 and HKDF-SHA256, bound to what they are for.

Every derived key depends on the roster and with it on experiment and round, so that no key is used
with another roster or in another round. The private key of the masks follows from a secret of 16
bytes, which is what is shared out: it is revealed if its owner drops out. The key of the channel,
which protects the shares, is another one and is never revealed.
"""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedse.errors import WireError
from fedse.types import canonical_json

PROTOCOL = "fedse secure sum 1"
# One message per key, so its number is always the same.
FIRST = bytes(12)


def derived(secret: bytes, purpose: str, *facts: str) -> bytes:
    """32 bytes that tell nothing about `secret` or about those for another purpose."""
    info = canonical_json([PROTOCOL, purpose, *facts])
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def mask_key(seed: bytes) -> X25519PrivateKey:
    """The private key of a member's pair masks, from the secret that is shared out."""
    return X25519PrivateKey.from_private_bytes(derived(seed, "mask key"))


def channel_key(secret: bytes) -> X25519PrivateKey:
    """The private key with which a member reads its shares of others' secrets."""
    return X25519PrivateKey.from_private_bytes(derived(secret, "channel key"))


def public_half(key: X25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def commitment(seed: bytes) -> str:
    """What a self mask's seed can be checked with, without telling it: it has 128 random bits."""
    return hashlib.sha256(canonical_json([PROTOCOL, "self seed", seed.hex()])).hexdigest()


def pair_stream(own: X25519PrivateKey, other: str, roster: str, names: tuple[str, str]) -> bytes:
    """The key of the mask that two members share, the same at both; `other` is a public half."""
    first, second = sorted(names)
    return derived(_agreed(own, other), "pair mask", roster, first, second)


def self_stream(seed: bytes, roster: str, member: str) -> bytes:
    """The key of the mask that a member adds for itself."""
    return derived(seed, "self mask", roster, member)


def sealed(
    own: X25519PrivateKey, other: str, roster: str, *, sender: str, receiver: str, plain: bytes
) -> bytes:
    """`plain` encrypted for `receiver`, and authenticated as coming unchanged from `sender`."""
    key = derived(_agreed(own, other), "shares", roster, sender, receiver)
    return AESGCM(key).encrypt(FIRST, plain, None)


def unsealed(
    own: X25519PrivateKey, other: str, roster: str, *, sender: str, receiver: str, data: bytes
) -> bytes:
    """What `sender` sealed for `receiver`; anything else is a WireError."""
    key = derived(_agreed(own, other), "shares", roster, sender, receiver)
    try:
        return AESGCM(key).decrypt(FIRST, data, None)
    except InvalidTag:
        raise WireError(
            f"the shares from {sender} for {receiver} are not as they were sent"
        ) from None


def require_usable(public: str) -> None:
    """A secret can be agreed on with the owner of this public half, or it is a WireError."""
    _agreed(channel_key(FIRST), public)


def _agreed(own: X25519PrivateKey, other: str) -> bytes:
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other)))
    except ValueError:
        # A key of another length, or one of the few with which every secret is the same.
        raise WireError("a member's public key is not one of X25519") from None
