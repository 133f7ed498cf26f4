"""Secrets that have no form of their own: what stands after a label or in a URL; private keys."""

import re
from collections.abc import Iterator, Set
from itertools import pairwise
from typing import Literal

from fedse.redact.spans import SECRET, Span

Class = Literal["upper", "lower", "digit", "other"]
ALL: Set[Class] = {"upper", "lower", "digit"}

# Without an end, as in a text that was cut off, the rest of the text belongs to the key.
PRIVATE_KEY = re.compile(
    r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
    r"(?:-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
IN_A_URL = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"]{0,100}:([^\s/@'\"]{1,200})@")
HEADER = re.compile(
    r"(?i)\b(?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?(?:[a-z]{3,12}\s+)?"
    r"(?!(?:bearer|basic|digest|negotiate|token)\b)([^\s'\",;]{6,})"
)
SCHEME = re.compile(r"(?i)\b(?:bearer|basic|digest|token)\s+([\w.~+/=-]{8,})")
PASSWORD = r"(?:pass(?:word|wd|phrase|code|wort)|pwd|kennwort|mot de passe|contrase(?:ñ|n)a)"
# The longer labels first: `secret` alone would end before the `key` of a secret key.
KEY = (
    r"(?:(?:api|app|access|auth|private|secret|client|encryption|signing|account|shared|master|"
    r"storage|consumer|service|webhook|licen[cs]e|recovery)[ _-]?(?:key|secret|token)|"
    r"session[ _-]?(?:id|key)|secret|token|credentials?|cookie)"
)
ENDS = r"(?:_\w{1,20})?['\"`]?\]?"
# Looked at and not consumed: what seems to be a value may itself be the label of the next one.
VALUE = r"(?=\"([^\"\n]{3,})\"|'([^'\n]{3,})'|`([^`\n]{3,})`|([^\s\"'`<>,;]{3,}))"
# A tag or a border between two cells of a table is a sign, too.
BY_SIGN = r"\s*(?:=>|:=|==?|:|\||(?:</?\w{1,10}>\s*)+|>)\s*"
PASSWORD_BY_SIGN = re.compile(rf"(?i){PASSWORD}{ENDS}{BY_SIGN}{VALUE}")
GIVEN = r"\s+(?:(?:(?:is|was|has been)\s+)?(?:now|(?:re)?set to|changed to)|is|was|to|with|as)\s+"
PASSWORD_BY_WORD = re.compile(
    rf"(?i){PASSWORD}{ENDS}(?:(?:\s+(?:for|of|to|on|at)\s[^\n:=.]{{1,60}}?)?{GIVEN}|\s+){VALUE}"
)
PHRASE = re.compile(r"(?i)\b(?:pass|seed |recovery )phrase['\"]?\s*[:=]\s*['\"]?([^\n'\"]{8,200})")
KEY_BY_SIGN = re.compile(rf"(?i){KEY}{ENDS}(?:{BY_SIGN}|\s+(?:is|was)\s+|\s+){VALUE}")
CODE = re.compile(
    r"(?i)\b(?:pin|cvv2?|cvc2?|otp|tan|(?:one[- ]time|security|verification|access|door|2fa|mfa|"
    r"confirmation)[ -]?(?:code|password|pin))(?:\s+(?:code|number))?['\"]?"
    r"\s*(?:=|:|\bis\b|\bwas\b)?\s*['\"]?(\d{3,8})(?!\w)"
)
SENTENCE = re.compile(r"[^\S\n]+\w")
CHANGES = 0.4
"""Share of neighbours of another class in a random string, at least: 0.62 is to be expected with
letters of both cases and digits, and words joined to a name have less than 0.35."""
NO_VALUES = {
    "true", "false", "null", "none", "required", "incorrect", "invalid", "wrong", "missing",
    "empty", "expired", "unknown", "changed", "reset", "optional", "hidden", "redacted", "string",
    "field",
}  # fmt: skip
SIGNS = set("!#$%&*+=?@^~")
CLOSING = ".,;:!?)]}>"

# A rule is tried only where one of its words occurs, which costs less to look for.
RULES = (
    (("://",), IN_A_URL),
    (("authorization",), HEADER),
    (("phrase",), PHRASE),
    (("pin", "cvv", "cvc", "otp", "tan", "code", "password"), CODE),
    (("bearer", "basic", "digest", "token"), SCHEME),
)
PASSWORD_STEMS = ("pass", "pwd", "kennwort", "contrase")
KEY_STEMS = ("key", "secret", "token", "session", "credential", "cookie")


def find_labelled(text: str) -> Iterator[Span]:
    """Passwords, keys and codes by what stands before them; private keys."""
    lower = text.lower()
    if "-----begin" in lower:
        for match in PRIVATE_KEY.finditer(text):
            yield Span(*match.span(), SECRET)
    for stems, rule in RULES:
        if any(stem in lower for stem in stems):
            for match in rule.finditer(text):
                if rule is not SCHEME or looks_made(match[1]):
                    yield _trimmed(text, *match.span(1))
    if any(stem in lower for stem in PASSWORD_STEMS):
        yield from _passwords(text)
    if any(stem in lower for stem in KEY_STEMS):
        yield from _keys(text)


def _passwords(text: str) -> Iterator[Span]:
    for match in PASSWORD_BY_SIGN.finditer(text):
        span, quoted = _value(text, match)
        value = text[span.start : span.end]
        if value.lower() in NO_VALUES or len(value) < 3:
            continue
        # One word of a sentence is no password; a word that ends the line may be one.
        sentence = value.isalpha() and SENTENCE.match(text, span.end)
        if quoted or not sentence or text[span.start - 1] == "=":
            yield span
    for match in PASSWORD_BY_WORD.finditer(text):
        span, quoted = _value(text, match)
        if quoted or looks_made(text[span.start : span.end]):
            yield span


def _keys(text: str) -> Iterator[Span]:
    for match in KEY_BY_SIGN.finditer(text):
        span, _ = _value(text, match)
        value = text[span.start : span.end]
        if len(value) >= 8 and looks_made(value):
            yield span


def _value(text: str, match: re.Match[str]) -> tuple[Span, bool]:
    """The value after a label, and whether it was in quotes."""
    group = next(g for g, held in enumerate(match.groups(), 1) if held is not None)
    quoted = group < len(match.groups())
    start, end = match.span(group)
    return (Span(start, end, SECRET) if quoted else _trimmed(text, start, end)), quoted


def _trimmed(text: str, start: int, end: int) -> Span:
    """Without the punctuation of the sentence behind it."""
    bare = text[start:end].rstrip(CLOSING)
    return Span(start, start + len(bare), SECRET)


def looks_made(value: str) -> bool:
    """Whether nobody writes this as a word: letters with digits or signs, or in random cases."""
    classes = {_class_of(letter) for letter in value}
    if "digit" in classes or SIGNS & set(value):
        return bool(classes & {"upper", "lower"})
    return len(value) >= 16 and looks_random(value, {"upper", "lower"})


def looks_random(value: str, needed: Set[Class] = ALL) -> bool:
    """Whether letters and digits are mixed as only chance mixes them."""
    classes = [_class_of(letter) for letter in value]
    if not needed <= set(classes):
        return False
    changes = sum(one != other for one, other in pairwise(classes))
    return changes >= CHANGES * (len(value) - 1)


def _class_of(letter: str) -> Class:
    if letter.isdigit():
        return "digit"
    if letter.isupper():
        return "upper"
    return "lower" if letter.islower() else "other"
