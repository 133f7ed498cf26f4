"""Sections on how a run went: variety of the actions, agreement of the clients, time."""

from fedse.report.charts import bars, line
from fedse.report.collapse import RULE, collapses
from fedse.report.facts import RunFacts
from fedse.report.figures import (
    Figure,
    LegendEntry,
    PageSection,
    Panel,
    rounds_of,
    span_of,
)
from fedse.report.many import client_lines
from fedse.report.tables import (
    STAGES,
    Column,
    Table,
    client_table,
    drift_table,
    merge_error_table,
    stage_table,
)

MOST_WARNINGS = 20


def variety(facts: RunFacts, id: str) -> PageSection:
    table = client_table(
        facts,
        [Column("entropy", "entropy, nats", "number"), Column("distinct", "distinct", "rate")],
        lambda stats: [stats.entropy, stats.distinct] if stats.played else [None, None],
    )
    entropy = Figure(
        f"{id}-entropy",
        "Entropy of the actions",
        "Zero nats is one action repeated over and over; falling is normal while an agent "
        "learns, a fall together with the share below is not.",
        table.only("round", "client", "entropy"),
    )
    distinct = Figure(
        f"{id}-distinct",
        "Share of distinct episodes",
        "1 means that no two episodes of the round were the same action for action.",
        table.only("round", "client", "distinct"),
    )
    marked = collapses(facts.results)
    warnings = [
        f"{c.client}: since round {c.since}. Entropy from {c.first.entropy:.2f} to "
        f"{c.last.entropy:.2f} nats, share of distinct episodes from {c.first.distinct:.2f} to "
        f"{c.last.distinct:.2f}."
        for c in marked[:MOST_WARNINGS]
    ]
    if more := marked[MOST_WARNINGS:]:
        warnings.append(f"And {len(more):,} more clients.")
    return PageSection(
        id,
        "Variety of actions",
        "Does the agent keep exploring, or does it repeat itself?",
        [
            client_lines(facts, entropy, "entropy"),
            client_lines(facts, distinct, "distinct", span=(0.0, 1.0)),
        ],
        warnings=warnings,
        note=f"{RULE} " + ("" if warnings else "No client of this run is marked."),
    )


def agreement(facts: RunFacts, id: str) -> PageSection:
    measured = any(result.drift for result in facts.results)
    loss = client_table(facts, [Column("loss", "loss", "number")], lambda stats: [stats.loss])
    learned = Figure(
        f"{id}-loss",
        "Training loss",
        "The mean loss of the last epoch in nats per agent token; every client learns from its "
        "own buffer, so levels are not comparable, directions are.",
        loss,
    )
    return PageSection(
        id,
        "Agreement of the clients",
        "Do the clients pull the adapter the same way, and what does averaging lose?",
        [*(_pull_figures(facts, id) if measured else []), client_lines(facts, learned, "loss")],
        note=""
        if measured
        else "Updates were not compared in this run: nobody voted, or the adapters are too large "
        "to be held side by side.",
    )


def _pull_figures(facts: RunFacts, id: str) -> list[Figure]:
    table = drift_table(facts)
    low = span_of(table, "cosine")[0]
    cosine = Figure(
        f"{id}-cosine",
        "Cosine of each update to the merged update",
        "1 is the direction of the merged update, 0 is a right angle to it, and below 0 the "
        "client pulled against it.",
        table.only("round", "client", "cosine"),
    )
    length = Figure(
        f"{id}-length",
        "Length of each update",
        "The Euclidean length before clipping; a client far above the others would lead the "
        "mean if it were not clipped.",
        table.only("round", "client", "length"),
    )
    return [
        client_lines(facts, cosine, "cosine", span=(low, 1.0)),
        client_lines(facts, length, "length", number=".3g"),
        _merge_figure(facts, id),
    ]


def _merge_figure(facts: RunFacts, id: str) -> Figure:
    error = merge_error_table(facts)
    spec = line("error", rounds=rounds_of(error), span=span_of(error, "error"), tip=".3f")
    return Figure(
        f"{id}-error",
        "What averaging the factors changes",
        "‖mean(BA) - mean(B) mean(A)‖ / ‖mean(BA)‖: 0 means that the mean of the LoRA factors is "
        "the mean of what they do.",
        error,
        [Panel("relative error", spec, "", [], note=_ends(error))],
        wide=True,
    )


def _ends(error: Table) -> str:
    values = [row[1] for row in error.rows if row[1] is not None]
    return f"{values[0]:.2f} → {values[-1]:.2f}" if values else ""


def time_spent(facts: RunFacts, id: str) -> PageSection:
    table = stage_table(facts)
    total = [sum(c for c in row[1:4] if isinstance(c, float)) for row in table.rows]
    span = (0.0, max(total, default=1.0))
    spec = bars(
        STAGES, rounds=rounds_of(table), span=span, title="client seconds", fills="stage", tip=".1f"
    )
    keys = [LegendEntry(stage, f"fill stage-{stage}") for stage in STAGES]
    figure = Figure(
        f"{id}-stages",
        "Seconds by stage",
        "Each bar adds up the seconds of all clients; clients work in parallel, so the wall-clock "
        "time in the table can be shorter. Evaluation is drawn at the round it measured.",
        table,
        [Panel("all clients together", spec, "", [], keys)],
        wide=True,
    )
    wall = sum(result.seconds for result in facts.results)
    lead = f"Where does the time go? The rounds took {wall:,.0f} s of wall-clock time."
    return PageSection(id, "Time", lead, [figure])
