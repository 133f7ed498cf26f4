"""What is drawn of a number that every client has in every round: of many clients, their spread."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedse.report.charts import MOST_ROUNDS, Span, band, shown_step
from fedse.report.facts import RunFacts
from fedse.report.figures import (
    Figure,
    LegendEntry,
    Panel,
    bar_panels,
    groups,
    line_panels,
    rounds_of,
    span_of,
)
from fedse.report.tables import ENVIRONMENT, OUTCOMES, ROUND, Cell, Column, Table

MOST_LINES = 30
"""More clients than these are drawn together."""
MOST_BARS = 600
"""In all panels together, each of several parts; more take a browser seconds."""
SPREAD = {"lowest": 0.0, "low": 0.1, "middle": 0.5, "high": 0.9, "highest": 1.0}
"""Which share of an environment's clients is below each value of a spread."""
TOLD = (("middle", "median"), ("low", "10 % are below"), ("high", "10 % are above"))


def client_lines(
    facts: RunFacts, figure: Figure, y: str, *, span: Span | None = None, number: str = ".2f"
) -> Figure:
    """The figure with a line per client of column `y`; of many clients with their spread."""
    table, env_of = figure.table, facts.env_of
    if len(facts.clients) <= MOST_LINES:
        grouped = groups(facts.clients, env_of)
        return replace(figure, panels=line_panels(table, y, grouped, span=span, number=number))
    spread = spread_table(table, y, env_of)
    spec = band("middle", span or span_of(table, y), TOLD, rounds=rounds_of(table), tip=number)
    reading = (
        f"{figure.reading} Drawn are the median of {len(facts.clients):,} clients and the span "
        "that leaves out the lowest and the highest tenth of them."
    )
    panels = [Panel(env, spec, "env", [env]) for env in sorted(set(env_of.values()))]
    return replace(figure, reading=reading, table=spread, panels=panels)


def spread_table(table: Table, y: str, env_of: Mapping[str, str]) -> Table:
    """Per round and environment, between which values of column `y` its clients are."""
    at = table.keys.index(y)
    values: defaultdict[tuple[Cell, str], list[float]] = defaultdict(list)
    for row in table.rows:
        if isinstance(value := row[at], int | float):
            values[row[0], env_of[str(row[1])]].append(value)
    rows: list[list[Cell]] = []
    for (index, env), found in values.items():
        found.sort()
        rows.append([index, env, *_at(found, SPREAD.values()), len(found)])
    titles = ("lowest", "10 % are below", "median", "10 % are above", "highest")
    kind = table.columns[at].kind
    columns = [Column(key, title, kind) for key, title in zip(SPREAD, titles, strict=True)]
    return Table((ROUND, ENVIRONMENT, *columns, Column("clients", "clients", "count")), rows)


def _at(ordered: Sequence[float], shares: Iterable[float]) -> list[float]:
    return [ordered[round(share * (len(ordered) - 1))] for share in shares]


def client_outcomes(facts: RunFacts, figure: Figure) -> Figure:
    """The figure with bars per client; of many clients with those of their environments."""
    keys = [LegendEntry(outcome, f"fill {outcome}") for outcome in OUTCOMES]
    table, names, by, reading = figure.table, facts.clients, "client", figure.reading
    if len(names) > MOST_LINES:
        table, names, by = sum_table(table, facts.env_of), sorted(set(facts.env_of.values())), "env"
        reading = f"{reading} The {len(facts.clients):,} clients are added up."
    panels = bar_panels(table, OUTCOMES, names, by=by)
    drawn = replace(figure, reading=reading, table=table, panels=panels, keys=keys)
    return thinned(drawn, MOST_BARS // len(names))


def sum_table(table: Table, env_of: Mapping[str, str]) -> Table:
    """The counts of a table of clients, added up per round and environment."""
    sums: dict[tuple[Cell, str], list[Cell]] = {}
    for index, client, *counts in table.rows:
        total = sums.setdefault((index, env_of[str(client)]), [0] * len(counts))
        total[:] = [(a or 0) + (b or 0) for a, b in zip(total, counts, strict=True)]  # type: ignore[operator]
    rows = [[*place, *counts] for place, counts in sums.items()]
    return Table((ROUND, ENVIRONMENT, *table.columns[2:]), rows)


def thinned(figure: Figure, most: int = MOST_ROUNDS) -> Figure:
    """The figure with so few rounds that each can be seen; the first and the last are kept."""
    first, last = rounds_of(figure.table)
    if len({row[0] for row in figure.table.rows}) <= most + 1:
        return figure
    step = shown_step((first, last), most)
    rows = [
        row for row in figure.table.rows if row[0] in (first, last) or int(row[0] or 0) % step == 0
    ]
    reading = f"{figure.reading} One round in {step} is shown."
    return replace(figure, reading=reading, table=Table(figure.table.columns, rows))
