"""Keys and tokens that have a form of their own, by the table in token_formats.py.

A token has no spaces and is long, so only long runs without spaces are looked at.
"""

import re
from collections.abc import Iterator
from functools import cache

from fedse.redact.randomness import evidence
from fedse.redact.spans import SECRET, Span
from fedse.redact.token_formats import ALPHABETS, TOKEN_FORMATS, TokenFormat

RUN = re.compile(r"[!-~]{20,}")
RANDOM_BITS = {"digits": 3.3, "hex": 4.0, "capitals": 5.0}
OTHER_BITS = 6.0
LONGEST = 4096
"""Characters of a part: without an end, `M-M-M-` and so on would cost the square of its length."""
LEAST = 12.0
"""Bits of evidence (randomness.py): with so few a word behind such a beginning is readable."""


def expression(form: TokenFormat) -> str:
    """Finds the tokens of one format, with the rest as its group, however long they are."""
    characters = f"[{ALPHABETS[form.alphabet]}]"
    parts = r"\.".join(f"{characters}{{{least},{LONGEST}}}" for least in form.lengths.split("."))
    # After a word the beginning would be part of it; `:A` follows the number of a bot.
    before = r"(?<![A-Za-z0-9])" if form.begins[0].isalnum() else r"\b\d{8,12}"
    return f"{before}(?:{'|'.join(map(re.escape, form.begins.split()))})({parts})"


@cache
def token_expressions() -> re.Pattern[str]:
    """All formats as one expression; the number of the group says which one it was."""
    return re.compile("|".join(map(expression, TOKEN_FORMATS)))


def find_tokens(text: str) -> Iterator[Span]:
    """Keys and tokens of known services."""
    for run in RUN.finditer(text):
        for match in token_expressions().finditer(text, *run.span()):
            form = TOKEN_FORMATS[(match.lastindex or 1) - 1]
            found, *_ = evidence(
                match[match.lastindex or 0], RANDOM_BITS.get(form.alphabet, OTHER_BITS)
            )
            if found >= LEAST:
                yield Span(*match.span(), SECRET)
