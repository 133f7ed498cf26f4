"""Private parts of the texts of one episode -> pseudonyms, the same one for the same value.

A pseudonym follows from the texts without the private parts and from the order in which these come,
never from a value. So it tells nothing about the value, it differs from that of the same value in
another episode, and episodes that differ in private parts only become equal.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

from fedse.redact.spans import CONSONANTS, LETTERS, Find, Span, replaced, settled
from fedse.seeds import seed_of
from fedse.types import digest_of

TRIES = 1000
"""Pseudonyms of one length that are tried."""
SHORTEST = 5
"""Characters of a value that is looked for everywhere in an episode once it was found; a shorter
one, such as a code of four digits, may stand elsewhere for something else."""


class Replacement(NamedTuple):
    """One private value of an episode."""

    kind: str
    value: str
    pseudonym: str
    times: int


class Redaction(NamedTuple):
    """What is replaced by what in the texts of one episode."""

    spans: Mapping[str, Sequence[Span]]
    """Of each text."""
    pseudonyms: Mapping[str, str]
    """By the value, without regard to its spelling."""

    def apply(self, text: str) -> str:
        """The text with pseudonyms; it must be one of those that were looked at."""
        return replaced(text, self.spans[text], lambda s: self.pseudonyms[spelled(text, s)])

    def values(self, text: str) -> frozenset[str]:
        """What is private in the text, without regard to its spelling."""
        return frozenset(spelled(text, span) for span in self.spans[text])

    def replacements(self) -> Iterator[Replacement]:
        """Each value as it is written first, by kind, and in how many places it stands."""
        first: dict[str, tuple[str, str]] = {}
        times: Counter[str] = Counter()
        for text, spans in self.spans.items():
            for span in spans:
                key = spelled(text, span)
                first.setdefault(key, (span.kind, text[span.start : span.end]))
                times[key] += 1
        for key, (kind, value) in first.items():
            yield Replacement(kind, value, self.pseudonyms[key], times[key])


def spelled(text: str, span: Span) -> str:
    """What stands there by its letters and digits alone: 4111 1111 and 4111-1111 are one value."""
    value = text[span.start : span.end].casefold()
    return "".join(filter(str.isalnum, value)) or value


def plan_redaction(
    texts: Sequence[str], find: Find, *, identity: str = "", beside: Iterable[str] = ()
) -> Redaction:
    """How the texts of one episode are redacted; `identity` names the episode's task.

    Texts that stand `beside` them are redacted alike and change no pseudonym.
    """
    ordered = list(dict.fromkeys([*texts, *beside]))
    known: dict[str, str] = {}
    while True:
        everywhere = _also(find, known)
        spans = {text: settled(text, everywhere) for text in ordered}
        values = {text[s.start : s.end]: s.kind for text in ordered for s in spans[text]}
        if values.keys() <= known.keys():
            break
        known = {**values, **known}
    return Redaction(spans, _pseudonyms(texts, ordered, spans, identity))


def redact_text(text: str, find: Find) -> str:
    """One text by itself."""
    return plan_redaction([text], find).apply(text)


def _also(find: Find, known: Mapping[str, str]) -> Find:
    """Finds what `find` does, and every further place of a value that is known to be private."""
    long = sorted((v for v in known if len(v) >= SHORTEST), key=lambda v: (-len(v), v))
    if not long:
        return find
    again = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, long))})(?!\w)")

    def both(text: str) -> Iterator[Span]:
        yield from find(text)
        yield from (Span(*match.span(), known[match[0]]) for match in again.finditer(text))

    return both


def _pseudonyms(
    own: Sequence[str], texts: Sequence[str], spans: Mapping[str, Sequence[Span]], identity: str
) -> dict[str, str]:
    """By value; `own` are the texts of the episode, which come first among all `texts`."""
    kinds: dict[str, str] = {}
    for text in texts:
        for span in spans[text]:
            kinds.setdefault(spelled(text, span), span.kind)
    if not kinds:
        return {}
    order = {key: number for number, key in enumerate(kinds)}
    mark = {key: f"\0{kinds[key]}{number}\0" for key, number in order.items()}
    skeleton = Redaction(spans, mark)
    digest = digest_of([identity, [skeleton.apply(text) for text in own]])
    everything = "\n".join(texts)
    given: dict[str, str] = {}
    for key, number in order.items():
        drawn = _drawn(kinds[key], seed_of(digest, number))
        taken = {*given.values()}
        given[key] = next(p for p in drawn if p not in everything and p not in taken)
    return given


def _drawn(kind: str, seed: int) -> Iterator[str]:
    """Pseudonyms by chance, with more letters where many are taken."""
    random = Random(seed)
    for tries in count():
        letters = random.choices(CONSONANTS, k=LETTERS + tries // TRIES)
        yield f"[{kind}-{''.join(letters)}]"
