"""Figures and sections: a sentence on how to read it, panels, and the table beneath.

Panels are small multiples with one scale: one environment, or one client, or at most five clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

from fedse.report.charts import SERIES, Span, Spec, band, bars, lines
from fedse.report.tables import Cell, Table

INTERVAL = (("rate", "success"), ("low", "95 % from"), ("high", "to"))


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a panel's legend: the name, its style, and the value it ends with."""

    name: str
    style: str
    value: str = ""


@dataclass(frozen=True)
class Panel:
    """One drawing: the rows of the figure's table whose column `by` is one of `values`."""

    title: str
    spec: Spec
    by: str
    values: list[str]
    """Empty = every row."""
    keys: list[LegendEntry] = field(default_factory=list)
    note: str = ""
    """The result in a few characters, shown beside the title."""

    @property
    def label(self) -> str:
        """A description of the drawing for people who cannot see it."""
        ends = "; ".join(f"{key.name} {key.value}".strip() for key in self.keys)
        return ": ".join(part for part in (self.title, self.note, ends) if part)


@dataclass(frozen=True)
class Figure:
    id: str
    title: str
    reading: str
    """One sentence."""
    table: Table
    panels: list[Panel] = field(default_factory=list)
    keys: list[LegendEntry] = field(default_factory=list)
    """A legend all panels share."""
    wide: bool = False
    """A single panel that may use the whole width."""


@dataclass(frozen=True)
class PageSection:
    id: str
    title: str
    lead: str
    """The answer in a sentence or two, or the question."""
    figures: list[Figure] = field(default_factory=list)
    table: Table | None = None
    """Shown open: a result in itself."""
    table_title: str = ""
    warnings: list[str] = field(default_factory=list)
    note: str = ""


def groups(clients: Sequence[str], env_of: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Clients by environment, at most SERIES together; each with the style it has everywhere."""
    groups_by_title: dict[str, dict[str, int]] = {}
    for env in sorted({env_of[client] for client in clients}):
        groups_by_title |= parts_of(env, [client for client in clients if env_of[client] == env])
    return groups_by_title


def parts_of(title: str, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """The names by the title of their panel, at most SERIES together, each with its style."""
    parts = shared_out(names)
    return {
        title if len(parts) == 1 else f"{title}, {number} of {len(parts)}": {
            name: style for style, name in enumerate(part)
        }
        for number, part in enumerate(parts, 1)
    }


def shared_out(names: Sequence[str]) -> list[list[str]]:
    """The names in order, in as few parts of at most SERIES as possible, alike in size."""
    count = ceil(len(names) / SERIES)
    cuts = [len(names) * i // count for i in range(count + 1)] if count else [0]
    return [list(names[a:b]) for a, b in pairwise(cuts)]


def band_panels(table: Table, envs: Sequence[str]) -> list[Panel]:
    """One panel per environment of a success table."""
    rounds = rounds_of(table)
    panels = []
    for env in envs:
        rows = table.where("env", env)
        first, last = rows[0], rows[-1]
        note = f"{first['rate']:.2f} → {last['rate']:.2f}" if len(rows) > 1 else _two(last["rate"])
        spec = band("rate", (0.0, 1.0), INTERVAL, rounds=rounds, tip=".2f")
        panels.append(Panel(env, spec, "env", [env], note=note))
    return panels


def line_panels(
    table: Table,
    y: str,
    grouped: Mapping[str, Mapping[str, int]],
    *,
    by: str = "client",
    span: Span | None = None,
    number: str = ".2f",
) -> list[Panel]:
    """One panel per group with a line per member; the scale is common to all panels."""
    rounds, span = rounds_of(table), span or span_of(table, y)
    panels = []
    for title, series in grouped.items():
        spec = lines(y, series, by=by, rounds=rounds, span=span, tip=number)
        keys = [
            LegendEntry(name, f"line s{style}", _last(table.where(by, name), y, number))
            for name, style in series.items()
        ]
        panels.append(Panel(title, spec, by, list(series), keys))
    return panels


def bar_panels(
    table: Table,
    parts: Sequence[str],
    names: Sequence[str],
    *,
    by: str = "client",
) -> list[Panel]:
    """One panel of stacked bars per name."""
    picks = [table.keys.index(part) for part in parts]
    heights = [sum(_number(row[i]) for i in picks) for row in table.rows]
    top = max(heights, default=1.0)
    spec = bars(parts, rounds=rounds_of(table), span=(0.0, top), title="", fills="fill", tip="d")
    return [Panel(name, spec, by, [name]) for name in names]


def rounds_of(table: Table) -> Span:
    """The first and last round of a table; its first column is the round."""
    rounds = [_number(row[0]) for row in table.rows]
    return min(rounds, default=0.0), max(rounds, default=0.0)


def span_of(table: Table, key: str) -> Span:
    """From 0, or from the lowest value below it, to the highest value of the column."""
    column = table.keys.index(key)
    values = [_number(row[column]) for row in table.rows if row[column] is not None]
    return min([0.0, *values]), max([0.0, *values])


def _last(rows: Sequence[Mapping[str, Cell]], key: str, number: str) -> str:
    values = [row[key] for row in rows if row[key] is not None]
    return format(values[-1], number) if values else "no value"


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _two(cell: Cell) -> str:
    return f"{_number(cell):.2f}"
