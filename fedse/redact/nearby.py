"""Passwords and codes that stand near a word for them, before or behind, in the line or below it.

With nothing but nearness to go by, a password needs digits or signs among its letters as no
readable word has them, and a code needs more digits than most numbers have. What could be one is
looked for first, because it is rare, and the words for it are looked for around it only.
"""

import re
from collections.abc import Iterator

from fedse.redact.randomness import BITS, evidence
from fedse.redact.spans import SECRET, Span

# All of these are looked for in lower case.
PASSWORD_WORDS = re.compile(
    r"pass(?:wor[dt]|wd|phrase|code|key)|(?:_|require)pass\b|\bpass(?=\s*[:=])|mot de passe|\bpsk\b"
    r"|\bpwd?\b|pswd|kennwort|contrase|wachtwoord|\bsenha\b|credential|identified by"
)
LOGIN_WORDS = re.compile(
    r"\blog(?:ging)?[ -]?(?:in|on)\b|\bsign(?:ing)?[ -]?in\b|\buser|account|\bcurl\b|ftp\b|\bssh\b"
)
CODE_WORDS = re.compile(
    r"\bpins?\b|\bt?otp\b|\bm?tan\b|\b[2m]fa\b|passcode|\bone-time|\bone time (?:code|pin|pass)"
    r"|(?:verification|security|access|door|alarm|gate|entry|unlock|login|auth\w*) ?code"
)
WEAK_CODE_WORDS = re.compile(
    r"(?<!post)(?<!zip )(?<!postal )(?<!error )(?<!product )code\b|c[oó]digo|\bconfirm|\bverif"
    r"|\blog ?in\b|\bsign(?:ing)? in\b|\bsms\b|\bauthenticat"
)
ABOVE, BEHIND = 120, 60
"""Characters before and behind a password in which the word for it is near."""
CODES_NEAR = 50
LINES_ABOVE = 2
CANDIDATE = re.compile(r"[^\s\"'`<>,;|()\[\]{}=]{7,100}")
UNEVEN = re.compile(r"[0-9!#$%&*+?@^~]|[a-z][A-Z]")
SIGNS = set("!#$%&*+?@^~")
OPENING, CLOSING = "*_#:-", ".,;:!?)]}>*"
SHORTEST = 7
LETTERS_ALONE = 25.0
"""Bits of evidence (randomness.py) of a password without digits and signs."""
PAIRED = re.compile(r"[\w.@-]{2,40}(?: ?: ?| / |, | and | with )['\"`]?\Z")
FLAG = re.compile(r"(?:^|\s)-[pPa] ?['\"]?\Z")
GLUED_FLAG = re.compile(r"-[pPa](?=\w)")
NAME = re.compile(r"[\w.-]+:")
AT_A_HOST = re.compile(
    r"(?<![\w:/.-])(?!(?:mailto|sips?|xmpp|acct):)[\w.-]{1,40}:([^\s/@'\"]{4,64})@\w"
)
CODE = re.compile(r"(?<![\w.:/%#-])(?:[A-Z]{1,3}-)?(\d{4,8}|\d{3}[ -]\d{3})(?![\w%-]|[.,:/]\d)")
DATE = re.compile(r"(?:19|20)\d\d(?:[01]\d[0-3]\d)?")
WEAK_DIGITS = 6
READABLE = re.compile(
    r"[\d.,]+[A-Za-z%]{1,4}"  # a number with its unit
    r"|[\d:/.TZ+-]+|0x[0-9a-fA-F]+"  # a date, a time, an address in memory
    r"|v?\d+(?:\.\w+)+"  # a version
    r"|.*[/\\].*|.*@[\w-]+\..*|.*\.[a-z]\w{0,4}"  # a path, an address, a file
    r"|@?[a-z_.-]+(?:\d{1,2}[a-z_.-]*)?|[a-z]+(?:[_.-][a-z]+){2,}[_-]?\d*"  # a name
    r"|[A-Z0-9]+(?:[_-][A-Z0-9]+)+|(?:[A-Z][a-z]+\d*){3,}"  # a constant, a class
    r"|(?i:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})"  # an id
)


def find_nearby(text: str) -> Iterator[Span]:
    """Passwords and codes near a word that says so."""
    for word in CANDIDATE.finditer(text):
        if UNEVEN.search(word[0]):
            yield from _password(text, *word.span())
    for code in CODE.finditer(text):
        if not DATE.fullmatch(code[1]) and _is_called_code(text, *code.span(1)):
            yield Span(*code.span(1), SECRET)
    if "@" in text:
        yield from (Span(*match.span(1), SECRET) for match in AT_A_HOST.finditer(text))


def looks_like_a_password(word: str) -> bool:
    """Whether letters stand with digits or signs as in no readable word, number, path or name."""
    if len(word) < SHORTEST or not any(map(str.isalpha, word)) or READABLE.fullmatch(word):
        return False
    if any(map(str.isdigit, word)) or not SIGNS.isdisjoint(word[1:]):
        return True
    return word.isascii() and evidence(word, BITS)[0] >= LETTERS_ALONE


def _password(text: str, start: int, end: int) -> Iterator[Span]:
    """The word without the signs around it, or what follows a name and a colon in it."""
    for begin in _beginnings(text, start, end):
        bare = text[begin:end].rstrip(CLOSING)
        first = begin + len(bare) - len(bare.lstrip(OPENING))
        last = begin + len(bare)
        if looks_like_a_password(text[first:last]) and _is_called_password(text, first, last):
            yield Span(first, last, SECRET)
            return


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Where in a word a password may begin: behind a name, behind a flag, with the word."""
    name = NAME.match(text, start, end) or GLUED_FLAG.match(text, start, end)
    if name:
        yield name.end()
    yield start


def _is_called_password(text: str, start: int, end: int) -> bool:
    above = _above(text, start, ABOVE)
    line = above[above.rfind("\n") + 1 :]
    if PASSWORD_WORDS.search(above) or PASSWORD_WORDS.search(_behind(text, end, BEHIND)):
        return True
    tail = text[max(0, start - 50) : start]
    return bool(FLAG.search(tail) or (PAIRED.search(tail) and LOGIN_WORDS.search(line)))


def _is_called_code(text: str, start: int, end: int) -> bool:
    near = (_above(text, start, CODES_NEAR), _behind(text, end, CODES_NEAR))
    words = [CODE_WORDS] if end - start < WEAK_DIGITS else [CODE_WORDS, WEAK_CODE_WORDS]
    return any(word.search(part) for word in words for part in near)


def _above(text: str, start: int, near: int) -> str:
    """What stands before, in the line and in the lines above, in lower case."""
    lines = text[max(0, start - near) : start].lower().split("\n")
    return "\n".join(lines[-1 - LINES_ABOVE :])


def _behind(text: str, end: int, near: int) -> str:
    """What stands behind in the same line, in lower case."""
    return text[end : end + near].partition("\n")[0].lower()
