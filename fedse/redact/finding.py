"""The finders that the settings ask for, as one."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from fedse.config.redaction import RedactSection
from fedse.errors import require_packages
from fedse.redact.own import pattern_finders, word_finder
from fedse.redact.personal import personal_finders
from fedse.redact.spans import Find, Span

REMEMBERED = 4096
"""Texts whose spans are kept: a world says many things again and again."""


def finder_for(settings: RedactSection, folder: Path) -> Find:
    """Finds all that `settings` name; relative files of the owner begin at `folder`."""
    finders = [*_secrets(settings), *_own(settings, folder)]
    if settings.personal:
        finders += personal_finders(settings.countries)
    keep = frozenset(kept.casefold() for kept in settings.keep)

    @lru_cache(maxsize=REMEMBERED)
    def find(text: str) -> tuple[Span, ...]:
        found = (span for finder in finders for span in finder(text))
        return tuple(s for s in found if text[s.start : s.end].casefold() not in keep)

    return find


def _secrets(settings: RedactSection) -> Iterable[Find]:
    if not settings.secrets:
        return ()
    require_packages("redact.secrets = true", "stdnum", extra="redact")
    from fedse.redact.labelled import find_labelled
    from fedse.redact.nearby import find_nearby
    from fedse.redact.numbers import find_numbers
    from fedse.redact.randomness import find_random
    from fedse.redact.tokens import find_tokens

    return find_tokens, find_random, find_labelled, find_nearby, find_numbers


def _own(settings: RedactSection, folder: Path) -> Iterable[Find]:
    for name in settings.words:
        yield word_finder(_there(name, folder))
    for name in settings.patterns:
        yield from pattern_finders(_there(name, folder))


def _there(name: str, folder: Path) -> Path:
    """The file in `folder`; else as the name says it from where the program was started."""
    own = folder / Path(name).expanduser()
    return own if own.exists() else Path(name).expanduser()
