"""What the site's owner wants to hide: lists of names, and patterns for numbers of their own."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedse.errors import ConfigError
from fedse.redact.spans import KIND, Find, Span

WORD = re.compile(r"\w+")
Phrases = Mapping[str, Sequence[tuple[str, ...]]]
"""First word -> the phrases that begin with it, the longest first; in lower case."""


def word_finder(file: Path) -> Find:
    """Finds the lines of `file`; its name is their kind."""
    return partial(_find_phrases, _phrases(_text(file)), kind_of(file))


def pattern_finders(file: Path) -> list[Find]:
    """One finder per line `KIND = 'expression'` of a TOML file."""
    try:
        given = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}", hint=f"correct {file}") from None
    return [partial(_find_pattern, _compiled(file, kind, at), kind) for kind, at in given.items()]


def kind_of(file: Path) -> str:
    """The letters of the file's name in capitals, as STAFF for staff.txt."""
    letters = re.sub(r"[^A-Z]", "", file.stem.upper())[:16]
    return letters if len(letters) > 1 else "WORD"


def _find_phrases(phrases: Phrases, kind: str, text: str) -> Iterator[Span]:
    words = [(match[0].casefold(), *match.span()) for match in WORD.finditer(text)]
    for place, (word, start, _) in enumerate(words):
        for phrase in phrases.get(word, ()):
            if tuple(w for w, *_ in words[place : place + len(phrase)]) == phrase:
                yield Span(start, words[place + len(phrase) - 1][2], kind)
                break


def _find_pattern(expression: re.Pattern[str], kind: str, text: str) -> Iterator[Span]:
    for match in expression.finditer(text):
        yield Span(*match.span(1 if expression.groups else 0), kind)


def _phrases(text: str) -> Phrases:
    lines = (line.strip() for line in text.splitlines())
    found = {tuple(w.casefold() for w in WORD.findall(s)) for s in lines if not s.startswith("#")}
    phrases: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in sorted(filter(None, found), key=lambda words: (-len(words), words)):
        phrases[phrase[0]].append(phrase)
    return phrases


def _compiled(file: Path, kind: str, expression: object) -> re.Pattern[str]:
    if not re.fullmatch(KIND, kind):
        raise ConfigError(
            f"{file}: kind {kind!r}, expected 2 to 16 capital letters", hint=f"correct {file}"
        )
    try:
        return re.compile(str(expression))
    except re.error as error:
        raise ConfigError(
            f"{file}: {kind} is not a regular expression: {error}", hint=f"correct {file}"
        ) from None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {file}, a file of [redact]: {error}",
            hint="correct redact.words or patterns",
        ) from error
