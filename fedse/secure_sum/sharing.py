"""Shares of a secret of 16 bytes: so many of them give it back, one less tell nothing of it.

Shamir's scheme in GF(2^128), as PyCryptodome has it. The library takes its coefficients from the
operating system; nothing here depends on which they are.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from Crypto.Protocol.SecretSharing import Shamir

from fedse.errors import WireError

SECRET_BYTES = SHARE_BYTES = 16
MOST_TRIES = 2000
"""Groups of holders that are tried without, until the shares of the others fit together."""


class Recovered(NamedTuple):
    """A secret that fits what its owner announced."""

    secret: bytes
    false: frozenset[str]
    """Holders whose shares are not those of this secret."""


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


def recovered(
    shares: Mapping[str, bytes],
    holders: Sequence[str],
    *,
    threshold: int,
    fits: Callable[[bytes], bool],
    distrusted: Collection[str] = (),
) -> Recovered | None:
    """The secret that fits, although some holders may have given false shares; None if none does.

    The shares of `distrusted` holders are left out first.
    """
    order = sorted(shares, key=lambda holder: (holder not in distrusted, holder))
    groups = (
        out for size in range(len(shares) - threshold + 1) for out in combinations(order, size)
    )
    for out in islice(groups, MOST_TRIES):
        rest = {holder: share for holder, share in shares.items() if holder not in out}
        secret = joined(rest, holders, threshold=threshold)
        if fits(secret):
            sound = dict(sorted(rest.items())[: threshold - 1])
            return Recovered(secret, _false(shares, out, sound, secret, holders))
    return None


def _false(
    shares: Mapping[str, bytes],
    out: Collection[str],
    sound: Mapping[str, bytes],
    secret: bytes,
    holders: Sequence[str],
) -> frozenset[str]:
    """Of the holders that were left out, those whose share would have given another secret."""
    needed = len(sound) + 1
    with_it = {one: joined({**sound, one: shares[one]}, holders, threshold=needed) for one in out}
    return frozenset(one for one, found in with_it.items() if found != secret)
