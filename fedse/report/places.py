"""At home and elsewhere: the global adapter beside the clients' own, and what the gate decided."""

from fedse.report.facts import RunFacts
from fedse.report.figures import PageSection
from fedse.report.tables import CLIENT, ENVIRONMENT, ROUND, Cell, Column, Table
from fedse.stats.rates import Rate, change, rates

TITLES = {
    "test": "new tasks, global",
    "test-personal": "new tasks, personal",
    "home": "home, global",
    "home-personal": "home, personal",
}

GAIN = (
    Column("gain", "personal at home", "change"),
    Column("low", "95 % from", "change"),
    Column("high", "to", "change"),
)


def at_home(facts: RunFacts, id: str) -> PageSection:
    """Each client's success at home and in tasks that no client has, with both adapters."""
    table = places_table(facts)
    lead = (
        "Does a client do better at home with the common agent, or with the personal one it "
        "trained from it? New tasks are those that no client has; home tasks are the client's own."
    )
    return PageSection(id, "At home", lead, [], table, "Per client, after the last measured round")


def places_table(facts: RunFacts) -> Table | None:
    """One row per client; None where only new tasks were played, by the global adapter alone."""
    newest = facts.evals[max(facts.evals)] if facts.evals else {}
    by_place = {place: by_client for place in TITLES if (by_client := rates(newest, place))}
    if set(by_place) <= {"test"}:
        return None
    columns = [CLIENT, ENVIRONMENT, *(Column(place, TITLES[place], "rate") for place in by_place)]
    both = {"home", "home-personal"} <= set(by_place)
    rows: list[list[Cell]] = []
    for client in facts.clients:
        found = {place: by_client.get(client) for place, by_client in by_place.items()}
        cells: list[Cell] = [rate.value if rate else None for rate in found.values()]
        gain = _gain(found.get("home"), found.get("home-personal")) if both else []
        rows.append([client, facts.env_of[client], *cells, *gain])
    return Table((*columns, *(GAIN if both else ())), rows)


def _gain(before: Rate | None, after: Rate | None) -> list[Cell]:
    if before is None or after is None:
        return [None] * len(GAIN)
    return [after.value - before.value, *change(before, after)]


def gate(facts: RunFacts, id: str) -> PageSection:
    """The gate's decision about each round's merged adapter."""
    columns = (
        ROUND,
        Column("change", "change in validation success", "change"),
        Column("bound", "lowest change explained by chance", "change"),
        Column("sites", "sites", "count"),
        Column("verdict", "verdict"),
        Column("left", "votes left out", "long"),
    )
    rows: list[list[Cell]] = []
    for result in facts.results:
        if result.gate:
            left = [one.client for one in result.excluded if one.kind == "suspected"]
            verdict = "refused" if result.gate.refused else "accepted"
            counts: list[Cell] = [result.gate.change, result.gate.bound, result.gate.sites]
            rows.append([result.index, *counts, verdict, ", ".join(left) or "none"])
    refused = sum(row[4] == "refused" for row in rows)
    lead = (
        f"The sites refused {refused} of {len(rows)} merged adapters: with those they succeeded "
        "in fewer validation games than chance explains, so the previous adapter was kept."
    )
    return PageSection(id, "Gate", lead, [], Table(columns, rows), "Every round")
