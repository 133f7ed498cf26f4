"""Signal flags: what three workflows of agents read, who knows which flags, and what is right.

A flag is a letter, and what it means depends on who reads it. Every harbour has seen two thirds of
the flags only, so an agent that has learned in one harbour cannot read all signals of the sea.
"""

from collections.abc import Sequence
from itertools import product

from fedse.types import Split

FLAGS = tuple("abcdefghijkl")
WAYS = ("up", "down", "left", "right")
COURSE = dict(zip(FLAGS, "up left down right left up right down down right up left".split()))
"""The way that a flag says."""
SECOND = dict(zip(FLAGS, "left up right down down right up left right up left down".split()))
"""The way that is as good."""
SHOAL = dict(zip(FLAGS, "down up left right right down up left up left right down".split()))
"""The way that is barred while the flag is flown by the watch."""
ASTERN = frozenset("bdfgjk")
"""Flags that mean: last first."""
HARBOURS = {"north": "abcdefgh", "east": "efghijkl", "west": "ijklabcd"}
"""The flags that have been seen there."""
HELD_OUT = 3
"""One signal in so many was never flown anywhere."""


def signals(harbour: str, split: Split, flags: int) -> list[str]:
    """The signals of so many flags: those flown in the harbour, or those never flown anywhere."""
    seen = HARBOURS[harbour] if split == "train" else FLAGS
    return [
        " ".join(signal)
        for signal in product(seen, repeat=flags)
        if _held_out(signal) == (split == "test")
    ]


def _held_out(signal: Sequence[str]) -> bool:
    return sum((place + 1) * FLAGS.index(flag) for place, flag in enumerate(signal)) % HELD_OUT == 0
