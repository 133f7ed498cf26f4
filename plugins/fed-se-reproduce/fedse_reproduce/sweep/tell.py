"""A sweep for a person: a table for every place that was measured, a row for every cell."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from fedse.cli.phrases import counted
from fedse.stats.verdict import ComparisonVerdict
from fedse_reproduce.progress import TableProgress
from fedse_reproduce.results import AnswerTo
from fedse_reproduce.sweep.grid import Axes, Cell
from fedse_reproduce.sweep.results import CellResult

PLACES = {
    "test": "tasks that no site has, the common adapter",
    "test-personal": "tasks that no site has, each site's personal adapter",
    "home": "the sites' own tasks, the common adapter",
    "home-personal": "the sites' own tasks, each site's personal adapter",
}
WIDTH = 80
SHORT = {
    ComparisonVerdict.HIGHER: "higher",
    ComparisonVerdict.LOWER: "lower",
    ComparisonVerdict.UNCLEAR: "unclear",
    ComparisonVerdict.NONE: "no difference",
}


def text(results: Sequence[CellResult], axes: Axes, seeds: int) -> str:
    """The tables, and what their columns mean."""
    parts: list[str] = []
    for record, rows in groupby(results, key=lambda one: one.record):
        parts += [*_table(PLACES[record], list(rows), axes), ""]
    asked = sum(one.answer is not None for one in results)
    return "\n".join([*parts, *_notes(asked, seeds)])


def _table(place: str, rows: Sequence[CellResult], axes: Axes) -> list[str]:
    """The values of a cell are in its row, or above the table where they make it too wide."""
    games = sorted({one.rate.n for one in rows})
    each = counted(games[0], "game") if len(games) == 1 else f"{games[0]} to {games[-1]} games"
    head = f"success in {place}; {each} a cell"
    beside = _aligned(rows, list(axes))
    if max(map(len, beside)) <= WIDTH:
        return [head, *beside]
    named = [f"{letter(number)}  {one.cell.label}" for number, one in enumerate(rows)]
    return [head, *named, *_aligned(rows, [])]


def _aligned(rows: Sequence[CellResult], axes: Sequence[str]) -> list[str]:
    table = [["", *map(_short, axes), "success", "minus A", "verdict", "CPU-s"]]
    for number, one in enumerate(rows):
        values = [one.cell.values[key] for key in axes]
        told = _difference(one.answer, first=number == 0)
        table.append([letter(number), *values, _success(one), *told, f"{one.cpu_seconds:.0f}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def letter(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    before, last = divmod(number, 26)
    return (letter(before - 1) if before else "") + chr(ord("A") + last)


def _success(one: CellResult) -> str:
    low, high = one.interval
    return f"{one.rate.value:.2f} ({low:.2f}-{high:.2f})"


def _difference(answer: AnswerTo | None, *, first: bool) -> tuple[str, str]:
    """The difference with its interval, and the verdict."""
    if answer is None:
        return ("", "") if first else ("other games", "not compared")
    value, low, high, _ = answer.found.micro
    return f"{value:+.2f} ({low:.2f} to {high:.2f})", SHORT[answer.verdict]


def _notes(asked: int, seeds: int) -> Iterator[str]:
    yield "95 % intervals over games and seeds."
    if asked:
        counts = "one question" if asked == 1 else f"{asked} questions (Holm)"
        yield f"Differences are over the same games, verdicts corrected for {counts}."
    if seeds == 1:
        yield "One seed: this compares adapters. To compare settings, add seeds: --seeds 0-4"
    yield "CPU-s: one seed of the cell, on average, loading the model included."


def plan_text(cells: Sequence[Cell], whole: TableProgress) -> str:
    """What a sweep would do."""
    named = [f"  {letter(number)}  {cell.label}" for number, cell in enumerate(cells)]
    work = f"{counted(whole.experiments, 'experiment')}, {counted(whole.rounds, 'round')} in all"
    return "\n".join([f"dry run: {work}; nothing was started", *named])
