"""Numbers of cards and accounts; a number counts only if its own check digits agree."""

import re
from collections.abc import Iterator

from stdnum import iban, luhn

from fedse.redact.spans import Span

CARD, IBAN = "CARD", "IBAN"
# ISO/IEC 7812: 12 to 19 digits; the first one of a payment card is 2 to 6.
CARDS = re.compile(r"(?<![\w.-])[2-6](?:[ -]?\d){12,18}(?![\w-])")
ACCOUNTS = re.compile(r"(?i)(?<![A-Z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}")
LEAST = 15
"""Characters of the shortest IBAN, Norway's."""


def find_numbers(text: str) -> Iterator[Span]:
    """Payment cards (Luhn's check digit) and IBANs (ISO 13616, with each country's own form)."""
    for match in CARDS.finditer(text):
        if luhn.is_valid(re.sub(r"[ -]", "", match[0])):
            yield Span(*match.span(), CARD)
    for match in ACCOUNTS.finditer(text):
        yield from _account(match[0], match.start())


def _account(candidate: str, start: int) -> Iterator[Span]:
    """The IBAN that `candidate` begins with: words that follow in capitals are not part of it."""
    ends = [i for i in range(len(candidate), LEAST - 1, -1) if candidate[i - 1].isalnum()]
    for end in ends:
        if candidate[end : end + 1].isalnum():
            continue
        if iban.is_valid(candidate[:end]):
            yield Span(start, start + end, IBAN)
            return
