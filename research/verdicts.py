"""Does it pay? One row per case: success together, beside that of the others, and the verdict.

The rows open docs/results.md and README.md, and all of them are in docs/results/verdicts.json; they
are made by `python -m research.make_results_page docs`.

Cases of the small model are questions of a pinned table (PINNED). Those of another model are in a
file of docs/results that MEASURED names: every game of every seed, as `Cases` says. The figures,
the correction for the number of questions and the verdict follow from these games; nobody types
them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple

from fedse.results.held_out import outcomes
from fedse.stats.paired import Difference, holm, paired_difference
from fedse.stats.rates import Rate
from fedse.stats.verdict import verdict_of
from fedse.types import Record
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.results import TableResult, answers, lines
from research.vega import BLUE, GREY, SCHEMA, VERMILLION
from scripts.markdown import table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SMALL, HALF_A_BILLION = "0.53 M parameters", "Qwen2.5-Coder-0.5B, de-quantised Q4_K_M"
ALONE, POOLED, DEMONSTRATIONS = "alone", "pooled", "demonstrations only"

MEASURED: tuple[str, ...] = ("desk-cases.json", "kitchens-cases.json", "kitchens-scale.json")
"""Files of docs/results with cases of other models; their rows come first, in this order."""

Games = dict[int, dict[str, str]]
"""Seed -> site -> its games in the order they were played: 1 = won."""


class Case(Record):
    """One question, on the same games: does together do better than what it is compared with?"""

    where: str
    """What each site has, and what it is tested in: `a maze; new mazes that no site has`."""
    together: Games
    other: Games
    against: str = ALONE
    """What `other` is."""
    first_screen: bool = False
    """Whether the row is in README.md too; only of cases against ALONE."""


class Cases(Record):
    """A file of MEASURED. Its cases are asked together: their p-values are corrected together."""

    model: str
    """As HALF_A_BILLION is."""
    command: str
    """What measured it."""
    details: str
    """The page with all about it, from docs/ on, as in `how-to/which-base-model.md#the-desk`."""
    cpu_hours: float
    cases: list[Case]


class Verdict(NamedTuple):
    """A row."""

    model: str
    where: str
    together: Rate
    against: str
    other: Rate
    difference: Difference
    """Together minus the other; p is corrected for the number of questions (Holm)."""
    verdict: str
    seeds: int
    details: str
    """Where more about it is, from docs/ on."""
    first_screen: bool


class Pinned(NamedTuple):
    """A question of a pinned table, in whichever direction it was asked."""

    where: str
    table: str
    together: str
    other: str
    against: str = ALONE
    first_screen: bool = False


PERSONAL, AS_MANY = "together, personal", "alone, as many steps"
PINNED = (
    Pinned("a maze; new mazes that no site has", "related", PERSONAL, AS_MANY, first_screen=True),
    Pinned(
        "a BabyAI level; new levels that no site has",
        "levels",
        PERSONAL,
        AS_MANY,
        first_screen=True,
    ),
    Pinned("a fifth of a world's tasks; its new tasks", "one-world", "fed-se", "local-evolve"),
    Pinned(
        "nothing, it has just joined; new tasks in its maze",
        "newcomer",
        "joined, at once",
        "alone, at once",
    ),
    Pinned("8 tasks in a maze; new tasks in it", "newcomer", "8 tasks: together", "8 tasks: alone"),
    Pinned(
        "200 tasks, the others 8; new tasks in its maze",
        "newcomer",
        "200 tasks: together",
        "200 tasks: alone",
    ),
    Pinned(
        "a maze; new tasks in that maze",
        "related",
        f"home: {PERSONAL}",
        f"home: {AS_MANY}",
        first_screen=True,
    ),
    Pinned(
        "a BabyAI level; new tasks in that level",
        "levels",
        f"home: {PERSONAL}",
        f"home: {AS_MANY}",
    ),
    Pinned(
        "a different environment; new tasks in it",
        "main",
        "fed-se, personal",
        "local-evolve, as many steps",
        first_screen=True,
    ),
    Pinned("a different environment; new tasks in it", "main", "fed-se", "fedit", DEMONSTRATIONS),
    Pinned("a maze; new mazes that no site has", "related", "together", "in one place", POOLED),
    Pinned(
        "a different environment; new tasks in it",
        "main",
        "fed-se, personal",
        "central-evolve, personal",
        POOLED,
    ),
)


def games_of(run: Path, record: str = "test") -> dict[str, str]:
    """Site -> its games in the last evaluation of a run, as `Games` has them for one seed."""
    found = outcomes(run, record=record)
    return {client: "".join("01"[won] for won in games) for client, games in found.items()}


def verdicts(results: Mapping[str, TableResult], measured: Sequence[Cases]) -> list[Verdict]:
    """All rows: first those of other models, then those of the small one."""
    rows = [row for cases in measured for row in of_cases(cases)]
    return [*rows, *(of_pinned(one, results[one.table]) for one in PINNED if one.table in results)]


def read_measured() -> list[Cases]:
    return [Cases.model_validate_json((RESULTS / name).read_text()) for name in MEASURED]


def of_cases(cases: Cases) -> Iterator[Verdict]:
    found = {}
    for case in cases.cases:
        shape, other = (
            {seed: {site: len(bits) for site, bits in by.items()} for seed, by in games.items()}
            for games in (case.together, case.other)
        )
        if shape != other:
            raise ValueError(f"{case.where}: expected the same games, got {shape} and {other}")
        found[case.where, case.against] = paired_difference(
            _blocks(case.together), _blocks(case.other), seed=0
        )
    p = holm({" ".join(key): one.p for key, one in found.items()})
    for case in cases.cases:
        key = case.where, case.against
        yield _row(
            Pinned(case.where, "", "", "", case.against, case.first_screen),
            cases.model,
            (_rate(case.together), _rate(case.other)),
            found[key]._replace(p=p[" ".join(key)]),
            len(case.together),
            cases.details,
        )


def _blocks(games: Games) -> list[list[bool]]:
    return [
        [bit == "1" for site in sorted(games[s]) for bit in games[s][site]] for s in sorted(games)
    ]


def _rate(games: Games) -> Rate:
    blocks = _blocks(games)
    return Rate(sum(map(sum, blocks)), sum(map(len, blocks)))


def of_pinned(asked: Pinned, result: TableResult) -> Verdict:
    rates = {line.arm: line.after for line in lines(result)}
    pair = asked.together, asked.other
    (answer,) = [one for one in answers(result) if {*one.question} == {*pair}]
    found = answer.found.micro._replace(p=answer.p_holm)
    if answer.question.better != asked.together:
        found = Difference(-found.value, -found.high, -found.low, found.p)
    both, seeds = (rates[asked.together], rates[asked.other]), len(result.arms[asked.together])
    return _row(asked, SMALL, both, found, seeds, f"results.md#{slug(TABLES[asked.table].title)}")


def _row(
    asked: Pinned,
    model: str,
    rates: tuple[Rate, Rate],
    found: Difference,
    seeds: int,
    details: str,
) -> Verdict:
    if asked.first_screen and asked.against != ALONE:
        raise ValueError(f"{asked.where}: the first screen compares with {ALONE} only")
    together, other = rates
    verdict = verdict_of(found, found.p).value
    return Verdict(
        model,
        asked.where,
        together,
        asked.against,
        other,
        found,
        verdict,
        seeds,
        details,
        asked.first_screen,
    )


def slug(title: str) -> str:
    """The anchor of a heading on the docs site."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def as_json(rows: Sequence[Verdict]) -> str:
    """The rows as a file, figures unrounded."""
    return json.dumps([_plain(row) for row in rows], indent=1) + "\n"


def _plain(row: Verdict) -> dict[str, Any]:
    rates = {
        name: {"won": rate.successes, "played": rate.n} | rate.interval._asdict()
        for name, rate in (("together", row.together), ("other", row.other))
    }
    return row._asdict() | rates | {"difference": row.difference._asdict()}


def page_table(rows: Sequence[Verdict]) -> str:
    """The first table of docs/results.md."""
    head = ["each site has; is tested in", "together", "against", "points (95 %)", "verdict"]
    return _table(head, rows, [_page_cells(row) for row in rows])


def _page_cells(row: Verdict) -> list[str]:
    value, low, high = (100 * one for one in row.difference[:3])
    link = row.details.removeprefix("results.md")
    return [
        f"[{row.where}]({link})",
        percent(row.together),
        f"{percent(row.other)} {row.against}",
        f"{value:+.1f} ({low:.1f} to {high:.1f})",
        row.verdict,
    ]


def readme_table(rows: Sequence[Verdict]) -> str:
    """The table on the first screen of README.md."""
    shown = [row for row in rows if row.first_screen]
    cells = [[r.where, percent(r.together), percent(r.other), r.verdict] for r in shown]
    return _table(["each site has, and is tested in", "together", "alone", "verdict"], shown, cells)


def _table(head: list[str], rows: Sequence[Verdict], cells: list[list[str]]) -> str:
    """With the model in a column of its own where there are several."""
    if len({row.model for row in rows}) < 2:
        return table(head, cells)
    return table(
        ["model", *head], [[row.model, *own] for row, own in zip(rows, cells, strict=True)]
    )


def percent(rate: Rate) -> str:
    return f"{100 * rate.value:.1f} %"


def with_table(readme: str, rows: Sequence[Verdict]) -> str:
    """`readme` with its table as the rows say."""
    return re.sub(
        r"^\|.*each site has, and is tested in \|.*\n(?:\|.*\n)+",
        lambda _: readme_table(rows) + "\n",
        readme,
        count=1,
        flags=re.M,
    )


OPENING = """\
# Results

Does it pay to learn together? Success on held-out tasks.{of_model} Alone, a site takes as many
optimiser steps as together; a pooled trainer takes those of all sites.

![Success together and in comparison, with 95 % intervals](results/verdicts-success.svg)
![How many points more succeed together, with 95 % intervals](results/verdicts-difference.svg)

{table}

Intervals of differences are over games and seeds. "Higher" and "lower" hold after correction for
the number of questions that were asked together (Holm); "unclear" means that only the interval
excludes zero. All figures: [verdicts.json](results/verdicts.json).

"""


def opening(rows: Sequence[Verdict]) -> str:
    """The first screen of docs/results.md: two charts, the table, and how to read them."""
    several = len({row.model for row in rows}) > 1
    of_model = "" if several else f" Every figure here is from a model of {SMALL}."
    return OPENING.format(of_model=of_model, table=page_table(rows))


# Wide enough for the labels, narrow enough for a phone, and for both side by side on a desk.
WIDTH, STEP, LABEL = 315, 36, 11


def success_chart(rows: Sequence[Verdict]) -> dict[str, Any]:
    """Each row's success together and in comparison, below its name."""
    points = [
        {
            "row": number,
            "what": "together" if name == "together" else "compared with it",
            "value": rate.value,
            "low": rate.interval.low,
            "high": rate.interval.high,
        }
        for number, row in enumerate(rows)
        for name, rate in (("other", row.other), ("together", row.together))
    ]
    scale = {"domain": ["together", "compared with it"], "range": [BLUE, VERMILLION]}
    legend = {"title": None, "orient": "top", "offset": 0}
    colour = {"field": "what", "type": "nominal", "scale": scale, "legend": legend}
    return _chart(rows, points, colour, [0.0, 1.0], "success, 95 % interval")


def difference_chart(rows: Sequence[Verdict]) -> dict[str, Any]:
    """Each row's difference, in the colour of its verdict."""
    words = ["higher", "lower", "not shown"]
    points = [
        {
            "row": number,
            "what": row.verdict if row.verdict in words else words[-1],
            "value": row.difference.value,
            "low": row.difference.low,
            "high": row.difference.high,
        }
        for number, row in enumerate(rows)
    ]
    scale = {"domain": words, "range": [BLUE, VERMILLION, GREY]}
    legend = {"title": None, "orient": "top", "offset": 0}
    colour = {"field": "what", "type": "nominal", "scale": scale, "legend": legend}
    ends = [end for row in rows for end in row.difference.interval]
    domain = [floor(10 * min(0.0, *ends)) / 10, ceil(10 * max(0.0, *ends)) / 10]
    return _chart(rows, points, colour, domain, "together minus the other, 95 % interval")


def _chart(
    rows: Sequence[Verdict],
    points: list[dict[str, Any]],
    colour: dict[str, Any],
    domain: list[float],
    title: str,
) -> dict[str, Any]:
    several = len({row.model for row in rows}) > 1
    names = [
        {
            "row": number,
            "at": domain[0],
            "name": row.where
            + (f" ({row.against})" if row.against != ALONE else "")
            + (f" [{row.model.partition(',')[0]}]" if several and row.model != SMALL else ""),
        }
        for number, row in enumerate(rows)
    ]
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"paddingOuter": 0.3}}
    axis = {"format": ".0%", "tickCount": 5, "grid": True}
    x = {"type": "quantitative", "scale": {"domain": domain, "nice": False}, "axis": axis}
    span = {"y": y, "x": {**x, "field": "low", "title": title}, "x2": {"field": "high"}}
    point = {"y": y, "x": {**x, "field": "value", "title": title}, "color": colour}
    zero = {"type": "rule", "color": "black", "strokeWidth": 1}
    label = {"type": "text", "align": "left", "dy": -13, "fontSize": LABEL, "color": "black"}
    return {
        "$schema": SCHEMA,
        "config": {"background": "white", "font": "sans-serif", "view": {"stroke": None}},
        "width": WIDTH,
        "height": {"step": STEP},
        "layer": [
            {
                "data": {"values": [{"at": 0.0}]},
                "mark": zero,
                "encoding": {"x": {**x, "field": "at", "title": title}},
            },
            {
                "data": {"values": points},
                "layer": [
                    {
                        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.7},
                        "encoding": {**span, "color": colour},
                    },
                    {
                        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                        "encoding": point,
                    },
                ],
            },
            {
                "data": {"values": names},
                "mark": label,
                "encoding": {
                    "y": y,
                    "x": {**x, "field": "at", "title": title},
                    "text": {"field": "name"},
                },
            },
        ],
    }
