"""Shares of a secret of 16 bytes: so many of them give it back, one less tell nothing of it.

Shamir's scheme in GF(2^128), as PyCryptodome has it. The library takes its coefficients from the
operating system; nothing here depends on which they are.
"""

from collections.abc import Mapping, Sequence

from Crypto.Protocol.SecretSharing import Shamir

from fedse.errors import WireError

SECRET_BYTES = SHARE_BYTES = 16


def split(secret: bytes, holders: Sequence[str], *, threshold: int) -> dict[str, bytes]:
    """A share for each holder, whose place among the holders is the place of its share."""
    shares = Shamir.split(threshold, len(holders), secret, ssss=False)
    return {holder: share for holder, (_, share) in zip(holders, shares, strict=True)}


def joined(shares: Mapping[str, bytes], holders: Sequence[str], *, threshold: int) -> bytes:
    """The secret that was split for these holders; fewer shares than the threshold are refused.

    False shares give a false secret, so it must be checked against something its owner announced.
    """
    places = {holder: place for place, holder in enumerate(holders, start=1)}
    known = sorted((places[holder], share) for holder, share in shares.items())
    if len(known) < threshold:
        raise WireError(f"{len(known)} shares of a secret, {threshold} are needed")
    secret: bytes = Shamir.combine(known[:threshold], ssss=False)
    return secret
