"""Words that look random, of whatever service: easier to explain by chance than as readable text.

Each character costs some bits after the one before it in readable text (letter_pairs.py), and as
many bits as its alphabet has in a random string. The difference, summed over the best stretch of
a run without spaces, is the evidence that the stretch was drawn by chance.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from math import log2

from fedse.redact.letter_pairs import LETTERS, STEPS
from fedse.redact.spans import SECRET, Span

CLASSES = "aA0_."
"""Lower case, capitals, digits, signs that join readable words, other signs."""
JOINS = "_-/."
OTHERS = "+~!#%&*?@^$"
SYMBOLS = {"0": 10, "_": len(JOINS), ".": len(OTHERS)}
# Without `=`, which stands between a label and a value.
LONG = re.compile(r"[\w+~!#%&*?@^$/.-]{12,}", re.ASCII)
# Words of one case without digits are long before chance explains them better.
UNEVEN = re.compile(r"[0-9]|[a-z][A-Z]|\w{20}", re.ASCII)
# Smaller alphabets than that of LONG, of 64 characters: as random strings they cost less.
SMALLER = (
    (re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}"), 4.0),
    (re.compile(r"[0-9a-z]{12,}|[0-9A-Z]{12,}"), log2(36)),
)
BITS = 6.0
ENOUGH = 40.0
"""Bits. 20 letters and digits by chance have 77, and 53 to 101 in nine of ten. Of the 490,000 words
of Python's own library eleven that are no secrets have more, such as UTF8/UTF16/UTF32."""
MOST = 13.0
"""Bits of one character in readable text: what is rarer was seen too seldom to tell."""
IN_ORDER = 4.0
"""Bits of a character that repeats or follows the one before it, as in xxxx or abcd."""
# Ids and addresses in memory open nothing, unless a label says that they do.
IDS = re.compile(
    r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]{1,16})(?![0-9a-fA-F])"
)
# As digests and keys are written: mostly digits by chance, such a word has little evidence.
HEXADECIMAL = re.compile(r"(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])(?:[0-9a-f]{32,}|[0-9A-F]{32,})")
BEFORE = re.compile(r"([A-Za-z0-9]*)[+/_.~!#%&*?@^$-]{0,2}\Z")
BEHIND = re.compile(r"[+/_.~!#%&*?@^$-]{0,2}([A-Za-z0-9]*)")
WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{4,}")
FARTHEST = 80
"""Characters of a neighbour that are looked at."""


def find_random(text: str) -> Iterator[Span]:
    """Words that only chance makes."""
    for run in LONG.finditer(_without_ids(text)):
        if not UNEVEN.search(run[0]):
            continue
        for start, end in _stretches(run[0]):
            yield Span(*_whole(text, run.start() + start, run.start() + end), SECRET)


def evidence(word: str, random_bits: float) -> tuple[float, int, int]:
    """The bits of the most random stretch of a word, and where it begins and ends."""
    bits = readable_bits()
    best, begin, end = 0.0, 0, 0
    here, since = 0.0, 0
    for place, pair in enumerate(pairwise(f" {word}")):
        if here <= 0.0:
            here, since = 0.0, place
        here += bits[pair] - random_bits
        if here > best:
            best, begin, end = here, since, place + 1
    return best, begin, end


@cache
def readable_bits() -> Mapping[tuple[str, str], float]:
    """What the second character of each pair costs in readable text; a run begins after a space."""
    every = [chr(code) for code in range(ord(" "), 127)]
    return {(one, other): _bits(one, other) for one in every for other in every if other != " "}


def class_of(letter: str) -> str:
    """One of CLASSES, or the space."""
    if letter.isalpha():
        return "a" if letter.islower() else "A"
    if letter.isdigit():
        return "0"
    return letter if letter == " " else "_" if letter in JOINS else "."


def _bits(one: str, other: str) -> float:
    if ord(other) - ord(one) in (0, 1):
        return IN_ORDER
    from_class, to_class = class_of(one), class_of(other)
    step = STEPS[from_class][CLASSES.index(to_class)]
    if to_class in SYMBOLS:
        return min(MOST, step + log2(SYMBOLS[to_class]))
    begins = not one.isalpha() or (from_class, to_class) == ("a", "A")
    costs = LETTERS["^" if begins else one.lower()]
    return min(MOST, step + int(costs[ord(other.lower()) - ord("a")], 16))


def _stretches(run: str) -> Iterator[tuple[int, int]]:
    found, start, end = evidence(run, BITS)
    if found >= ENOUGH:
        yield start, end
    for expression, bits in SMALLER:
        for match in expression.finditer(run):
            found, start, end = evidence(match[0], bits)
            if HEXADECIMAL.match(match[0]):
                yield match.span()
            elif found >= ENOUGH:
                yield match.start() + start, match.start() + end


def _without_ids(text: str) -> str:
    """As long as before, so that places stay."""
    return IDS.sub(lambda match: " " * len(match[0]), text)


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """With the letters and digits around it, and with neighbours that are no words."""
    start += len(text[start:end]) - len(text[start:end].lstrip(JOINS + OTHERS))
    end = start + len(text[start:end].rstrip(JOINS + OTHERS))
    while True:
        before = BEFORE.search(text, max(0, start - FARTHEST), start)
        if before is None or before.start() == start or _is_apart(before, text[start]):
            break
        start = before.start()
    while True:
        behind = BEHIND.match(text, end, end + FARTHEST)
        if behind is None or behind.end() == end or _is_apart(behind, text[end - 1]):
            break
        end = behind.end()
    return start, end


def _is_apart(neighbour: re.Match[str], edge: str) -> bool:
    """Whether a neighbour is a readable word of its own, or no letter at all."""
    touches = neighbour[0] == neighbour[1] and edge.isalnum()
    return not touches and (not neighbour[1] or bool(WORD.fullmatch(neighbour[1])))
