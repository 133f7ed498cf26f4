"""Private parts of the texts of one episode -> pseudonyms, the same one for the same value.

A pseudonym is a mark such as [SECRET-KQX], or a stand-in, which has the shape of the value. It
follows from the texts without the private parts, from the order in which these come, and from the
value's shape at most. So it tells no more about the value, and it differs from that of the same
value in another episode.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from random import Random
from typing import NamedTuple

from fedse.redact.spans import CONSONANTS, LETTERS, PSEUDONYM, Find, Span, replaced, settled
from fedse.redact.stand_ins import stand_ins
from fedse.seeds import seed_of
from fedse.types import digest_of

TRIES = 1000
"""Marks of one length that are tried."""
SHAPES = 20
"""Stand-ins that are tried before a mark is taken: of a value of one letter all may be in use."""
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
    kinds: Mapping[str, str]
    """By the value as well, in the order in which they come."""

    @property
    def stand_ins(self) -> tuple[tuple[str, str], ...]:
        """The pseudonyms that are no marks, with their kinds."""
        both = ((self.pseudonyms[value], kind) for value, kind in self.kinds.items())
        return tuple(one for one in both if not PSEUDONYM.fullmatch(one[0]))

    @property
    def skeleton(self) -> "Redaction":
        """Leaves no values, only their kinds: equal in episodes that differ in values only."""
        places = {key: f"\0{kind}{i}\0" for i, (key, kind) in enumerate(self.kinds.items())}
        return self._replace(pseudonyms=places)

    def apply(self, text: str) -> str:
        """The text with pseudonyms; it must be one of those that were looked at."""
        return replaced(text, self.spans[text], lambda s: self.pseudonyms[spelled(text, s)])

    def values(self, text: str) -> frozenset[str]:
        """What is private in the text, without regard to its spelling."""
        return frozenset(spelled(text, span) for span in self.spans[text])

    def replacements(self) -> Iterator[Replacement]:
        """Each value as it is written first, by kind, and in how many places it is replaced."""
        first: dict[str, tuple[str, str]] = {}
        times: Counter[str] = Counter()
        for text, spans in self.spans.items():
            for span in spans:
                key = spelled(text, span)
                first.setdefault(key, (span.kind, text[span.start : span.end]))
                times[key] += 1
        for key, (kind, value) in first.items():
            if value != self.pseudonyms[key]:  # else a stand-in that stands there already
                yield Replacement(kind, value, self.pseudonyms[key], times[key])


def spelled(text: str, span: Span) -> str:
    """What stands there by its letters and digits alone: 4111 1111 and 4111-1111 are one value."""
    value = text[span.start : span.end].casefold()
    return "".join(filter(str.isalnum, value)) or value


def plan_redaction(
    texts: Sequence[str],
    find: Find,
    *,
    identity: str = "",
    beside: Iterable[str] = (),
    shapes: Mapping[str, str] | None = None,
) -> Redaction:
    """How the texts of one episode are redacted; `identity` names the episode's task.

    Texts that stand `beside` them are redacted alike and change no pseudonym. With `shapes`,
    pseudonyms are stand-ins; it has those that stand in the texts already, with their kinds.
    """
    ordered = list(dict.fromkeys([*texts, *beside]))
    known: dict[str, str] = {}
    find = _with_kept(find, shapes or {})
    while True:
        everywhere = _also(find, known)
        spans = {text: settled(text, everywhere) for text in ordered}
        values = {text[s.start : s.end]: s.kind for text in ordered for s in spans[text]}
        if values.keys() <= known.keys():
            break
        known = {**values, **known}
    kinds: dict[str, str] = {}
    for text in ordered:
        for span in spans[text]:
            kinds.setdefault(spelled(text, span), span.kind)
    bare = Redaction(spans, {}, kinds).skeleton
    digest = digest_of([identity, [bare.apply(text) for text in texts]])
    return bare._replace(pseudonyms=_pseudonyms(bare, digest, find, shapes))


def redact_text(text: str, find: Find) -> str:
    """One text by itself."""
    return plan_redaction([text], find).apply(text)


def _with_kept(find: Find, kept: Mapping[str, str]) -> Find:
    """Finds stand-ins as what they are, and nothing else where one stands."""
    if not kept:
        return find
    longest = sorted(kept, key=lambda text: (-len(text), text))
    there = re.compile("|".join(map(re.escape, longest)))

    def both(text: str) -> Iterator[Span]:
        held = [Span(*match.span(), kept[match[0]]) for match in there.finditer(text)]
        yield from held
        for span in find(text):
            if not any(span.start < one.end and one.start < span.end for one in held):
                yield span

    return both


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
    bare: Redaction, digest: str, find: Find, shapes: Mapping[str, str] | None
) -> dict[str, str]:
    """By value; `digest` is of the episode without its values, of which `bare` leaves none."""
    everything = "\n".join(bare.spans)
    given: dict[str, str] = {}
    firsts = zip(bare.kinds, bare.replacements(), strict=True)
    for number, (key, (kind, value, *_)) in enumerate(firsts):
        if value in (shapes or {}):
            given[key] = value
            continue
        seed = seed_of(digest, number)
        tried = [*islice(stand_ins(kind, value, seed), SHAPES if shapes is not None else 0)]
        # One that is found again, such as another name of the list, is the second best.
        drawn = chain(sorted(tried, key=lambda one: bool([*find(one)])), _drawn(kind, seed))
        taken = " ".join(given.values())
        given[key] = next(p for p in drawn if p not in everything and p not in taken)
    return given


def _drawn(kind: str, seed: int) -> Iterator[str]:
    """Pseudonyms by chance, with more letters where many are taken."""
    random = Random(seed)
    for tries in count():
        letters = random.choices(CONSONANTS, k=LETTERS + tries // TRIES)
        yield f"[{kind}-{''.join(letters)}]"
