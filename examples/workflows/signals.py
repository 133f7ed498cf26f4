"""Signal flags: the tasks of three workflows of agents, who knows what of them, and what is right.

A flag is a letter and says a way. Each harbour has seen eight of the twelve flags only, so an agent
that has learned in one harbour alone cannot read every signal of the sea.
"""

from collections.abc import Sequence
from itertools import product

from fedse.types import Split

FLAGS = "abcdefghijkl"
WAYS = {
    "a": ("up", "left"),
    "b": ("left", "up"),
    "c": ("down", "right"),
    "d": ("right", "down"),
    "e": ("left", "down"),
    "f": ("up", "right"),
    "g": ("right", "up"),
    "h": ("down", "left"),
    "i": ("down", "right"),
    "j": ("right", "up"),
    "k": ("up", "left"),
    "l": ("left", "down"),
}
"""The way that a flag says, and the one that is as good if the first is barred."""
BARS_ROWS = "acfhjk"
"""Flags of the watch under which nobody may go up or down; under the others, not left or right."""
SECOND_FIRST = "bdfgjk"
"""Flags at the head of a signal whose first flag says its second way, and the other its first."""
HARBOURS = {"north": "abcdefgh", "east": "efghijkl", "west": "ijklabcd"}
"""The flags that have been seen there."""
NEVER_FLOWN = 3
"""One signal in so many was never flown in any harbour."""


def signals(harbour: str, split: Split, flags: int) -> list[str]:
    """The signals of so many flags: those flown in the harbour, or those never flown anywhere."""
    seen = HARBOURS[harbour] if split == "train" else FLAGS
    given = product(seen, repeat=flags)
    return [" ".join(one) for one in given if _never_flown(one) == (split == "test")]


def _never_flown(signal: Sequence[str]) -> bool:
    places = (number * FLAGS.index(flag) for number, flag in enumerate(signal, 1))
    return sum(places) % NEVER_FLOWN == 0


def way_of(flag: str, number: str = "1") -> str:
    """The flag's first or second way; empty if there is none."""
    return WAYS[flag][int(number) - 1] if flag in WAYS and number in ("1", "2") else ""


def is_barred(watch: str, way: str) -> bool:
    """Whether nobody may go that way while the watch flies this flag."""
    return (way in ("up", "down")) == (watch in BARS_ROWS)


def is_good(flag: str, watch: str, way: str) -> bool:
    """Whether the way is one of the flag's, and open."""
    return way in WAYS[flag] and not is_barred(watch, way)


def reading(flags: Sequence[str]) -> str:
    """The ways that these flags say, in their order."""
    return " ".join(map(way_of, flags))


def plan_of(head: str) -> str:
    """Which ways of the two flags behind this one are meant."""
    return "2 1" if head in SECOND_FIRST else "1 2"


def orders(signal: str) -> str:
    """What a signal says whose first flag tells which ways of the others are meant."""
    head, *flags = signal.split()
    return " ".join(map(way_of, flags, plan_of(head).split()))
