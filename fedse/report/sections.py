"""One run's part of the page: its sections, in the order of the questions a reviewer asks."""

from dataclasses import replace

from fedse.report.audits import audit
from fedse.report.charts import line
from fedse.report.dynamics import agreement, time_spent, variety
from fedse.report.facts import RunFacts
from fedse.report.figures import (
    Figure,
    PageSection,
    Panel,
    band_panels,
    rounds_of,
    span_of,
)
from fedse.report.many import client_lines, client_outcomes, thinned
from fedse.report.places import at_home, gate, places_table
from fedse.report.roles import roles
from fedse.report.tables import (
    CLIENT,
    ENVIRONMENT,
    Cell,
    Column,
    Table,
    client_table,
    missing_table,
    outcome_table,
    success_table,
    traffic_table,
)
from fedse.stats.rates import change


def run_sections(facts: RunFacts, prefix: str) -> list[PageSection]:
    """Everything but the headline and the settings; `prefix` keeps ids of several runs apart."""
    makers = [success, at_home, experience, traffic, variety, agreement, time_spent, gate, audit]
    makers += [roles, missing]
    lacking = {at_home: places_table(facts) is None, gate: not facts.config.gate.episodes}
    lacking[audit] = not facts.audits
    lacking[roles] = not facts.config.roles.names
    makers = [make for make in makers if not lacking.get(make)]
    if not facts.results:
        makers = [success]
    made = [make(facts, f"{prefix}{make.__name__.replace('_', '-')}") for make in makers]
    return [replace(section, figures=[*map(thinned, section.figures)]) for section in made]


def success(facts: RunFacts, id: str) -> PageSection:
    table = success_table(facts)
    envs = list(dict.fromkeys(str(row[1]) for row in table.rows))
    figure = Figure(
        f"{id}-env",
        "Success on held-out tasks, per environment",
        "Each point is the global adapter's share of successful held-out games after that round; "
        "the band is its 95 % Wilson interval, so bands that overlap widely may differ by chance.",
        table,
        band_panels(table, envs),
    )
    lead = "Does the common agent improve, and in which environments?"
    if not table.rows:
        return PageSection(id, "Success", f"{lead} It was not measured in this run.")
    named = "Per client, first and last measured round"
    return PageSection(id, "Success", lead, [figure], _success_by_client(facts), named)


def _success_by_client(facts: RunFacts) -> Table | None:
    compared = facts.compared()
    if compared is None:
        return None
    before, after = compared
    columns = (
        CLIENT,
        ENVIRONMENT,
        Column("before", "first", "rate"),
        Column("after", "last", "rate"),
        Column("change", "change", "change"),
        Column("low", "95 % from", "change"),
        Column("high", "to", "change"),
        Column("games", "games", "count"),
    )
    rows: list[list[Cell]] = []
    for client, rate in after.items():
        moved, old = change(before[client], rate), before[client]
        cells: list[Cell] = [old.value, rate.value, rate.value - old.value, *moved, rate.n]
        rows.append([client, facts.env_of[client], *cells])
    return Table(columns, rows)


def experience(facts: RunFacts, id: str) -> PageSection:
    grown = client_table(
        facts,
        [Column("added", "new", "count"), Column("buffered", "in the buffer", "count")],
        lambda stats: [stats.added, stats.buffered],
    )
    buffer = Figure(
        f"{id}-buffer",
        "Episodes in the buffer",
        "Each line is what one client has to learn from after that round; a flat line "
        "means that it succeeded in nothing new.",
        grown,
    )
    ended = Figure(
        f"{id}-outcomes",
        "What became of the episodes played",
        _reading_of_outcomes(facts),
        outcome_table(facts),
    )
    return PageSection(
        id,
        "Experience",
        "How fast does each client's own experience grow, and why are episodes dropped? "
        "None of it leaves the client.",
        [client_lines(facts, buffer, "buffered", number="d"), client_outcomes(facts, ended)],
    )


def _reading_of_outcomes(facts: RunFacts) -> str:
    if facts.config.select.type == "all":
        return (
            "Each bar is one round of one client; this run keeps every episode that did not "
            "break, and a duplicate was in the buffer before."
        )
    select = facts.config.select.type
    kept = "successful and new" if select == "success" else f"chosen by {select}, and new"
    return (
        f"Each bar is one round of one client from the bottom up: kept ({kept}), then what "
        "was dropped as a repeated success (duplicate), failed, cut off or broken."
    )


def traffic(facts: RunFacts, id: str) -> PageSection:
    table = traffic_table(facts)
    rounds = rounds_of(table)
    span = (0.0, max(span_of(table, way)[1] for way in ("up", "down")))
    last = dict(
        zip(("round", "up", "down"), table.rows[-1] if table.rows else [0] * 3, strict=True)
    )
    panels = [
        Panel(
            title,
            line(way, rounds=rounds, span=span, tip=".2f"),
            "",
            [],
            note=f"{last[way]:.2f} MB",
        )
        for way, title in (("up", "from the clients"), ("down", "to the clients"))
    ]
    figure = Figure(
        f"{id}-mb",
        "Adapters moved, cumulative megabytes",
        "All clients together; the first panel stays below the second when a client had nothing "
        "to learn from in some round and so sent nothing.",
        table,
        panels,
    )
    each = facts.spec.nbytes / 1e6
    lead = (
        f"What does the federation cost in communication? One adapter is {each:.2f} MB "
        f"({facts.spec.size:,} float32 numbers); a client receives one per round and sends "
        + ("one." if facts.config.train.factors == "both" else "the factor that it learned.")
    )
    return PageSection(id, "Communication", lead, [figure])


def missing(facts: RunFacts, id: str) -> PageSection:
    table = missing_table(facts)
    lead = "Whose adapter did not count, and why?"
    if not table.rows:
        return PageSection(id, "Who was missing", f"{lead} Every client counted in every round.")
    return PageSection(id, "Who was missing", lead, table=table)
