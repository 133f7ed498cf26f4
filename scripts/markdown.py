"""Pieces of Markdown."""

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped, a line break becomes a space."""
    cells = [[" ".join(c.replace("|", "\\|").split()) for c in row] for row in rows]
    lines = [" | ".join(row) for row in [head, ["---"] * len(head), *cells]]
    return "\n".join(f"| {line} |" for line in lines)


def code(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"
