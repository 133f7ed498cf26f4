"""Where in a text something private stands, and of which kind; no text is changed here."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

SECRET = "SECRET"
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
LETTERS = 3
KIND = r"[A-Z]{2,16}"
PSEUDONYM = re.compile(rf"\[({KIND})-[{CONSONANTS}]{{{LETTERS},8}}\]")
"""What stands for something private: its kind, and letters that tell apart those of one episode."""


class Span(NamedTuple):
    """The characters from `start` to before `end`."""

    start: int
    end: int
    kind: str


Find = Callable[[str], Iterable[Span]]
"""The private parts of a text, in any order; they may overlap."""


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same characters in order, none twice; of overlapping spans the longest gives the kind."""
    merged: list[Span] = []
    longest = 0
    for span in sorted(span for span in spans if span.end > span.start):
        length = span.end - span.start
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
            longest = length
            continue
        last = merged.pop()
        kind = span.kind if length > longest else last.kind
        merged.append(Span(last.start, max(last.end, span.end), kind))
        longest = max(longest, length)
    return merged


def settled(text: str, find: Find) -> list[Span]:
    """All private parts of `text`; between two of them, looked at alone, nothing more is found.

    A pseudonym is not looked at. So once all are replaced, there is nothing left to replace.
    """
    found: list[Span] = []
    pending = list(_between([(m.start(), m.end()) for m in PSEUDONYM.finditer(text)], 0, len(text)))
    while pending:
        start, end = pending.pop()
        here = [
            s._replace(start=s.start + start, end=s.end + start)
            for s in joined(find(text[start:end]))
        ]
        if here:
            found += here
            pending += _between([(s.start, s.end) for s in here], start, end)
    return sorted(found)


def replaced(text: str, spans: Iterable[Span], pseudonym: Callable[[Span], str]) -> str:
    """`text` with a pseudonym in place of each span, and every other character as it was."""
    parts, done = [], 0
    for span in spans:
        parts += [text[done : span.start], pseudonym(span)]
        done = span.end
    return "".join([*parts, text[done:]])


def _between(taken: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """What is left of start..end, without empty pieces."""
    for first, after in [*taken, (end, end)]:
        if first > start:
            yield start, first
        start = after
