"""Which of several runs is better: the answer of `fedse compare`, game by game where possible."""

from collections.abc import Sequence
from pathlib import Path

from fedse.errors import FedSEError
from fedse.report.facts import RunFacts
from fedse.report.figures import PageSection
from fedse.report.tables import Cell, Column, Table
from fedse.results.compare import Comparison, compare, scope, sentence

TITLE = "Which is better?"
COLUMNS = (
    Column("arm", "runs"),
    Column("seeds", "seeds", "count"),
    Column("games", "games", "count"),
    Column("success", "success", "rate"),
    Column("difference", "difference", "change"),
    Column("low", "95 % from", "change"),
    Column("high", "to", "change"),
    Column("verdict", "verdict"),
)


def which_is_better(runs: Sequence[RunFacts]) -> PageSection:
    """Each run against the first one; runs that differ only in their seed share a line."""
    try:
        comparison = compare([Path(run.summary.path) for run in runs])
    except FedSEError as error:
        return PageSection("better", TITLE, f"These runs cannot be compared: {error}.")
    first = comparison.results[0].arm.label
    count = len(comparison.contrasts)
    told = [sentence(one, one.arm.label, first, count) for one in comparison.contrasts]
    unpaired = {one.arm.label: one.unpaired for one in comparison.contrasts if one.unpaired}
    notes = [f"Counts only for {label}: {why}." for label, why in unpaired.items()]
    notes += [f"Note: {note}." for note in comparison.notes]
    notes += [scope(comparison)]
    table = Table(COLUMNS, _rows(comparison))
    return PageSection("better", TITLE, " ".join(told), table=table, note=" ".join(notes))


def _rows(comparison: Comparison) -> list[list[Cell]]:
    first = comparison.results[0]
    nothing: list[Cell] = [None, None, None, "the reference"]
    rows: list[list[Cell]] = [
        [first.arm.label, len(first.arm.runs), first.all.n, first.all.value, *nothing]
    ]
    for result, one in zip(comparison.results[1:], comparison.contrasts, strict=True):
        value, low, high, _ = one.found.micro
        played: list[Cell] = [len(result.arm.runs), result.all.n, result.all.value]
        rows.append([result.arm.label, *played, value, low, high, one.verdict])
    return rows
