"""What a misspelt word was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

# Half the letters in common: enough for one wrong letter in a key of two (`lr`).
CLOSE = 0.5


def closest(word: str, choices: Iterable[str]) -> str:
    """The choice most like `word`, empty when none is like it; swapped letters come first."""
    near = get_close_matches(word, list(choices), n=3, cutoff=CLOSE)
    return next(iter(sorted(near, key=lambda choice: sorted(choice) != sorted(word))), "")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """`, did you mean 'maze'?`, or nothing when no choice is like `word`."""
    near = closest(word, choices)
    return f", did you mean {near!r}?" if near else ""
