"""Stand-ins: texts of the shape of a private value, made up by chance.

Letters, capitals, digits and signs stand where they stand in the value, and nothing else is taken
from it. What could reach somebody begins as nothing that is in use does: addresses of machines and
mailboxes are those set aside for examples (RFC 2606, 5737, 3849, 7042), no country and no area has
a telephone code of 999 or 000, and letters are made-up words.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random

from fedse.redact.spans import CONSONANTS, SECRET

VOWELS = "AEIOU"
SCRIPTS = (
    (range(0x0370, 0x0400), range(0x03B1, 0x03CA)),  # Greek
    (range(0x0400, 0x0530), range(0x0430, 0x0450)),  # Cyrillic
    (range(0x0590, 0x0600), range(0x05D0, 0x05EB)),  # Hebrew
    (range(0x0600, 0x0700), range(0x0621, 0x063B)),  # Arabic
    (range(0x0900, 0x0980), range(0x0915, 0x093A)),  # Devanagari
    (range(0x3040, 0x30A0), range(0x3042, 0x3094)),  # Hiragana
    (range(0x30A0, 0x3100), range(0x30A2, 0x30F4)),  # Katakana
    (range(0x4E00, 0xA000), range(0x4E00, 0x9FA6)),  # Chinese
    (range(0xAC00, 0xD7A4), range(0xAC00, 0xD7A4)),  # Hangul
)
"""Blocks of Unicode, and the small letters that are drawn there; others become Latin ones."""
NETWORKS = ("192.0.2.", "198.51.100.", "203.0.113.")
MAILBOXES = ("example.com", "example.net", "example.org")
Make = Callable[[str, Random], str]


def stand_ins(kind: str, value: str, seed: int) -> Iterator[str]:
    """Texts for the value, without an end; none for a secret, which nobody should learn to say."""
    make, random = MAKERS.get(kind, alike), Random(seed)
    while kind != SECRET:
        yield make(value, random)


def alike(value: str, random: Random) -> str:
    """Vowels after consonants, so that it can be read; every sign as in the value."""
    made, letters = [], 0
    for sign in value:
        letters = letters + 1 if sign.isalpha() else 0
        made.append(_sign(sign, random, vowel=letters % 2 == 0))
    return "".join(made)


def _sign(sign: str, random: Random, *, vowel: bool) -> str:
    if sign.isdecimal():
        return random.choice("0123456789")
    if not sign.isalpha():
        return sign
    drawn = random.choice(VOWELS if vowel else CONSONANTS).lower()
    for block, letters in SCRIPTS:
        if ord(sign) in block:
            drawn = chr(random.choice(letters))
    return drawn.upper() if sign.isupper() else drawn


def _mailbox(value: str, random: Random) -> str:
    return f"{alike(value.partition('@')[0], random)}@{random.choice(MAILBOXES)}"


def _machine(value: str, random: Random) -> str:
    if ":" in value:
        return f"2001:db8::{random.randrange(1, 1 << 16):x}"
    return f"{random.choice(NETWORKS)}{random.randrange(1, 255)}"


def _hardware(value: str, random: Random) -> str:
    between = next((sign for sign in value if not sign.isalnum()), ":")
    return between.join(("00", "00", "5E", "00", "53", f"{random.randrange(256):02X}"))


def _telephone(value: str, random: Random) -> str:
    begins = iter("999" if value.startswith(("+", "00")) else "000")
    skipped = 2 if value.startswith("00") else 0
    behind = re.sub(r"\d", lambda _: next(begins, random.choice("0123456789")), value[skipped:])
    return value[:skipped] + behind


MAKERS: Mapping[str, Make] = {
    "EMAIL": _mailbox,
    "IP": _machine,
    "MAC": _hardware,
    "PHONE": _telephone,
}
"""By the kinds of personal.py; everything else is `alike`."""
