"""Several runs on one page: success per round side by side, final results, and what differs."""

from collections.abc import Sequence
from typing import Any

from fedse.report.facts import RunFacts
from fedse.report.figures import Figure, PageSection, Panel, line_panels, parts_of
from fedse.report.paired import which_is_better
from fedse.report.tables import (
    ENVIRONMENT,
    RATE_COLUMNS,
    ROUND,
    Cell,
    Column,
    Table,
    rate_cells,
    success_by_env,
)
from fedse.stats.rates import change, rates

RUN = Column("run", "run")


def comparison(runs: Sequence[RunFacts]) -> list[PageSection]:
    """The sections before each run's own part."""
    return [
        which_is_better(runs),
        PageSection(
            "final",
            "Final results",
            "Success on held-out tasks at the last measured round. The intervals belong to each "
            "run alone; runs with other seeds played other games.",
            table=final_table(runs),
        ),
        _per_round(runs),
        PageSection("cost", "Cost", "What did each run take?", table=cost_table(runs)),
        PageSection(
            "differences",
            "What differs in the settings",
            "Every setting that is not the same in all runs, but for the run's name.",
            table=difference_table(runs),
        ),
    ]


def _per_round(runs: Sequence[RunFacts]) -> PageSection:
    table = rounds_table(runs)
    envs = list(dict.fromkeys(str(row[1]) for row in table.rows))
    figure = Figure(
        "per-round-env",
        "Success on held-out tasks, one line per run",
        "Each point is a run's share of successful games after that round; the intervals are in "
        "the table, and lines closer than those may differ by chance.",
        table,
        [panel for env in envs for panel in _env_panels(table, runs, env)],
    )
    lead = "How did each run get there, environment by environment?"
    if not envs:
        return PageSection("per-round", "Success per round", f"{lead} It was not measured.")
    return PageSection("per-round", "Success per round", lead, [figure])


def _env_panels(table: Table, runs: Sequence[RunFacts], env: str) -> list[Panel]:
    """At most SERIES runs to a panel; the panel shows the rows of one environment."""
    rows = [row for row in table.rows if row[1] == env]
    only = Table(table.columns, rows)
    labels = [run.label for run in runs if any(row[2] == run.label for row in rows)]
    panels = line_panels(only, "rate", parts_of(env, labels), by="run", span=(0.0, 1.0))
    for panel in panels:
        # Axes of all panels are alike, so the rows are picked here and not by the table given.
        panel.spec["transform"] = [{"filter": {"field": "env", "equal": env}}]
    return panels


def rounds_table(runs: Sequence[RunFacts]) -> Table:
    """Success per run, environment and measured round."""
    rows: list[list[Cell]] = []
    for run in runs:
        for index, evals in run.evals.items():
            for env, rate in success_by_env(rates(evals), run.config).items():
                rows.append([index, env, run.label, *rate_cells(rate)])
    return Table((ROUND, ENVIRONMENT, RUN, *RATE_COLUMNS), rows)


def final_table(runs: Sequence[RunFacts]) -> Table:
    """Per run and environment: the last measured rate, and how it moved since the first."""
    columns = (
        RUN,
        ENVIRONMENT,
        Column("round", "round", "count"),
        *RATE_COLUMNS,
        Column("change", "change", "change"),
        Column("from", "95 % from", "change"),
        Column("upto", "to", "change"),
    )
    return Table(columns, [row for run in runs for row in _final_rows(run)])


def _final_rows(run: RunFacts) -> list[list[Cell]]:
    if not run.evals:
        return []
    last, compared = max(run.evals), run.compared()
    ends = [success_by_env(part, run.config) for part in compared] if compared else None
    rows: list[list[Cell]] = []
    for env, rate in success_by_env(rates(run.evals[last]), run.config).items():
        moved: list[Cell] = [None, None, None]
        if ends and env in ends[0]:
            before, after = ends[0][env], ends[1][env]
            moved = [after.value - before.value, *change(before, after)]
        rows.append([run.label, env, last, *rate_cells(rate), *moved])
    return rows


def cost_table(runs: Sequence[RunFacts]) -> Table:
    """What each run took: rounds, adapters moved, time."""
    columns = (
        RUN,
        Column("state", "state"),
        Column("seed", "seed", "count"),
        Column("clients", "clients", "count"),
        Column("rounds", "rounds", "count"),
        Column("up", "up, MB", "megabytes"),
        Column("down", "down, MB", "megabytes"),
        Column("wall", "wall clock, s", "seconds"),
    )
    return Table(columns, [_cost_row(run) for run in runs])


def _cost_row(run: RunFacts) -> list[Cell]:
    return [
        run.label,
        run.summary.status,
        run.card.seed,
        len(run.clients),
        len(run.results),
        sum(result.bytes_up for result in run.results) / 1e6,
        sum(result.bytes_down for result in run.results) / 1e6,
        sum(result.seconds for result in run.results),
    ]


def difference_table(runs: Sequence[RunFacts]) -> Table:
    """One row per setting that differs, one column per run."""
    flats = [flat(run.config.model_dump(mode="json")) for run in runs]
    keys = list(dict.fromkeys(key for settings in flats for key in settings))
    rows: list[list[Cell]] = []
    for key in keys:
        values = [settings.get(key, "not set") for settings in flats]
        if key != "run.name" and len(set(values)) > 1:
            rows.append([key, *values])
    columns = [Column(f"run{i}", run.label, "long") for i, run in enumerate(runs)]
    return Table((Column("key", "setting"), *columns), rows)


def flat(value: Any, at: str = "") -> dict[str, str]:
    """Nested settings as one level of dotted keys; clients are named, not numbered."""
    if isinstance(value, dict) and value:
        parts = [flat(inner, f"{at}.{key}" if at else key) for key, inner in value.items()]
    elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
        parts = [flat(v, f"{at}.{v.get('name', i)}") for i, v in enumerate(value)]
    else:
        return {at: "not set" if value is None else str(value)}
    return {key: text for part in parts for key, text in part.items()}
