"""Whole numbers with the discrete Gaussian distribution, exactly, from a secret.

The algorithm of Canonne, Kamath and Steinke (arXiv 2004.00010): discrete Laplace numbers are kept
with the right probability, and every coin is tossed by comparing whole numbers. So no distribution
is off by the rounding of a float, and the same secret gives the same numbers on any machine.
"""

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = Callable[[int], NDArray[np.uint64]]
"""So many uniform numbers of 64 bits, other ones at every call."""

MOST = 1 << 28
"""The largest sigma: its square and all that is compared with it fit into 64 bits."""
WORDS = 1 << 16
"""Drawn at once."""


def discrete_gaussian(secret: bytes, size: int, sigma: int) -> Integers:
    """`size` independent numbers, each x with a weight of exp(-x^2 / (2 sigma^2))."""
    if not 0 < sigma <= MOST:
        raise ValueError(f"sigma must be from 1 to {MOST}, got {sigma}")
    words, found = words_of(secret), np.zeros(size, dtype=np.int64)
    open_places = np.arange(size)
    while open_places.size:
        drawn = _laplace(words, open_places.size, sigma)
        kept = _is_kept(words, drawn, sigma)
        found[open_places[kept]] = drawn[kept]
        open_places = open_places[~kept]
    return found


def words_of(secret: bytes) -> Words:
    """A stream of SHAKE-256 of the secret."""
    block = 0

    def words(count: int) -> NDArray[np.uint64]:
        nonlocal block
        parts = []
        for start in range(0, count, WORDS):
            seed = secret + b"discrete gaussian" + block.to_bytes(8, "big")
            length = 8 * min(WORDS, count - start)
            parts.append(np.frombuffer(hashlib.shake_256(seed).digest(length), dtype="<u8"))
            block += 1
        return np.concatenate(parts).astype(np.uint64) if parts else np.empty(0, dtype=np.uint64)

    return words


def _laplace(words: Words, size: int, scale: int) -> Integers:
    """Each x with a weight of exp(-|x| / scale)."""
    found = np.zeros(size, dtype=np.int64)
    open_places = np.arange(size)
    while open_places.size:
        rest = _below(words, open_places.size, scale)
        kept = _exponential_coin(words, rest, scale)
        length = rest + scale * _runs(words, rest.size)
        negative = _below(words, rest.size, 2) == 1
        # Else zero would come twice as often.
        kept &= ~(negative & (length == 0))
        found[open_places[kept]] = np.where(negative, -length, length)[kept]
        open_places = open_places[~kept]
    return found


def _is_kept(words: Words, drawn: Integers, sigma: int) -> Flags:
    """Each with a probability of exp(-(|x| - sigma)^2 / (2 sigma^2))."""
    away = np.abs(np.abs(drawn) - sigma).astype(np.uint64)
    # Its square has 64 bits. Beyond, the probability is below exp(-127), less than a lost machine.
    near = away < np.uint64(1 << 32)
    squares = np.where(near, away, np.uint64(0)) ** np.uint64(2)
    whole, rest = np.divmod(squares, np.uint64(2 * sigma * sigma))
    kept: Flags = near & _exponential_coin(words, rest.astype(np.int64), 2 * sigma * sigma)
    left = np.flatnonzero(kept & (whole > 0))
    times = whole[left].astype(np.int64)
    while left.size:
        heads = _exponential_coin(words, np.ones(left.size, dtype=np.int64), 1)
        kept[left[~heads]] = False
        times -= 1
        again = heads & (times > 0)
        left, times = left[again], times[again]
    return kept


def _runs(words: Words, size: int) -> Integers:
    """How often a coin of exp(-1) shows heads before it shows tails."""
    found = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    while left.size:
        left = left[_exponential_coin(words, np.ones(left.size, dtype=np.int64), 1)]
        found[left] += 1
    return found


def _exponential_coin(words: Words, above: Integers, below: int) -> Flags:
    """Heads with a probability of exp(-above / below), which is at most 1, for each `above`.

    Coins of above / (below k) for k = 1, 2, ... are tossed until tails; heads if that is at an odd
    k. Such a coin is one of above / below and one of 1 / k.
    """
    heads = np.zeros(above.size, dtype=np.bool_)
    left, k = np.arange(above.size), 1
    while left.size:
        on = _below(words, left.size, below) < above[left]
        on &= _below(words, left.size, k) == 0
        heads[left[~on]] = k % 2 == 1
        left, k = left[on], k + 1
    return heads


def _below(words: Words, size: int, bound: int) -> Integers:
    """Uniform numbers from 0 to `bound` - 1."""
    if bound == 1:
        return np.zeros(size, dtype=np.int64)
    last = np.uint64(2**64 - 2**64 % bound - 1)
    drawn = words(size)
    while (wrong := np.flatnonzero(drawn > last)).size:
        drawn[wrong] = words(wrong.size)
    return (drawn % np.uint64(bound)).astype(np.int64)
