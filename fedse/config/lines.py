"""The line of a valid TOML text on which each table, key and list element stands.

This module finds only where statements begin and end; tomllib reads what they say.
"""

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Location = tuple[str | int, ...]


class _Statement(NamedTuple):
    line: int
    text: Sequence[str]
    parsed: dict[str, Any]


def toml_lines(text: str) -> dict[Location, int]:
    """Location -> line number, counted from 1; an element of an array of tables has its index."""
    line_of: dict[Location, int] = {}
    lengths: dict[Location, int] = {}
    table: Location = ()
    for statement in _statements(text.split("\n")):
        first = statement.text[0].lstrip()
        if not first.startswith("["):
            for location, line in _places(statement, statement.parsed):
                line_of[(*table, *location)] = line
            continue
        table = _header(statement.parsed, lengths)
        line_of.setdefault(table, statement.line)
        if first.startswith("[["):
            lengths[table] = lengths.get(table, 0) + 1
            table = (*table, lengths[table] - 1)
            line_of[table] = statement.line
    return line_of


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    """Each statement, which is the fewest lines that are TOML by themselves."""
    start = 0
    while start < len(lines):
        end = start + 1
        while (parsed := _parse(lines[start:end])) is None and end < len(lines):
            end += 1
        if parsed:
            yield _Statement(start + 1, lines[start:end], parsed)
        start = end


def _parse(lines: Sequence[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _header(parsed: dict[str, Any], lengths: dict[Location, int]) -> Location:
    """The table a header opens; inside an array of tables that is its newest element."""
    location: Location = ()
    node: Any = parsed
    while isinstance(node, dict) and node:
        ((name, node),) = node.items()
        if location in lengths:
            location = (*location, lengths[location] - 1)
        location = (*location, name)
    return location


def _places(
    statement: _Statement, node: Any, location: Location = (), line: int = 0
) -> Iterator[tuple[Location, int]]:
    """Every location inside the value of a `key = value` statement."""
    line = line or statement.line
    if location:
        yield location, line
    if isinstance(node, dict):
        for key, inner in node.items():
            yield from _places(statement, inner, (*location, key), line)
    elif isinstance(node, list):
        lines = _element_lines(statement, location) if all(map(_is_name, location)) else {}
        for index, inner in enumerate(node):
            yield from _places(statement, inner, (*location, index), lines.get(index, line))


def _is_name(part: str | int) -> bool:
    return isinstance(part, str)


def _element_lines(statement: _Statement, location: Location) -> dict[int, int]:
    """The line each element of the list ends on: the first that, closed there, contains it."""
    lines: dict[int, int] = {}
    for count in range(1, len(statement.text)):
        node: Any = _parse([*statement.text[:count], "]"])
        for part in location:
            node = node.get(part) if isinstance(node, dict) else None
        for index in range(len(node) if isinstance(node, list) else 0):
            lines.setdefault(index, statement.line + count - 1)
    for index in lines:
        lines[index] = min(lines[index], statement.line + len(statement.text) - 1)
    return lines
