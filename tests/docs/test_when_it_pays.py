"""Every figure on the page is the one that the results page has for the same arms."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from fedse.cli.app import build_app
from tests.docs.test_reference import can_be_typed

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "when-it-pays.md").read_text()
README = (DOCS.parent / "README.md").read_text()
RESULTS = (DOCS / "results.md").read_text()
ROWS = [
    line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| `[\w-]+` \|", line)
]
TABLES_TOLD = ("main", "related", "levels", "one-world", "newcomer", "attack")
POINTS = r"[+-]?\d+\.\d"


class Figures(NamedTuple):
    """The published figures of one table, in the page's units."""

    success: dict[str, str]
    """Arm -> per cent of the held-out games."""
    points: dict[str, tuple[str, str, str]]
    """Question -> difference and its interval."""
    answers: dict[str, str]


def published(table: str) -> Figures:
    (section,) = re.findall(
        rf"^`fedse reproduce {table}`, seeds 0 to \d;(.*?)(?=^## )", RESULTS, flags=re.M | re.S
    )
    arms = re.findall(r"^\| ([^|]+) \|[^|]*\| \*\*(0\.\d{3}) ", section, flags=re.M)
    asked = re.findall(
        r"^\| ([^|]+ against [^|]+) \| (\S+) \((\S+) to (\S+)\) \|.*\| ([^|]+) \|$",
        section,
        flags=re.M,
    )
    return Figures(
        {arm: f"{100 * float(rate):.1f} %" for arm, rate in arms},
        {question: (points(d), points(low), points(high)) for question, d, low, high, _ in asked},
        {question: answer.partition(" (<")[0] for question, *_, answer in asked},
    )


def points(share: str) -> str:
    return f"{100 * float(share):.1f}"


def test_there_are_rows_of_every_published_table():
    assert len(ROWS) == 19
    assert {row[0] for row in ROWS} == {f"`{name}`" for name in TABLES_TOLD}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2] + row[3:4]))
def test_a_row_is_what_was_published(row: list[str]):
    table, arm, success, against, other, difference, answer = row
    figures = published(table.strip("`"))
    question = f"{arm} against {against}"
    assert (success, other) == (figures.success[arm], figures.success[against])
    told = re.fullmatch(rf"({POINTS}) \(({POINTS}) to ({POINTS})\)", difference)
    assert tuple(part.removeprefix("+") for part in told.groups()) == figures.points[question]
    assert told[1].startswith(("+", "-"))
    assert answer == figures.answers[question]


def test_every_other_figure_is_on_the_results_page():
    """Shares of games as the results page has them, as 0.533 or as 53.3 % or 53 %."""
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith("|"))
    shares = re.findall(r"(\d+(?:\.\d)?) %(?! interval)", prose)
    assert {"53.3", "73.6", "14.2", "27.1", "52", "68"} <= {*shares}
    rates = {points(rate) for rate in re.findall(r"\b0\.\d{3}\b", RESULTS)}
    rates |= {f"{100 * float(rate):.0f}" for rate in re.findall(r"\b0\.\d\d\b", RESULTS)}
    assert [share for share in shares if share not in rates] == []
    assert "all | fed-se | 0.52 (0.45 to 0.58) | 0.68 (0.61 to 0.73) | +15.8 (+7.1 to +24.3)" in (
        RESULTS
    )
    assert "+15.8 points (7.1 to 24.3)" in PAGE.replace("\n", " ")
    assert "2 of 480 games" in RESULTS.replace("\n", " ")


def test_the_real_model_has_the_rows_of_the_results_page():
    (section,) = re.findall(r"^### A real language model$(.*?)^### ", PAGE, flags=re.M | re.S)
    told = re.findall(r"^\| (an? [^|]*|nothing[^|]*) \| (.*) \|$", section, flags=re.M)
    row = r"^\| Qwen[^|]* \| \[([^]]+)\]\([^)]*\) \| (.*) \|$"
    published = re.findall(row, RESULTS, flags=re.M)
    assert told == published
    assert len(told) >= 6


# The rows of the README's table, in order: table, arm together, arm alone.
ON_THE_FIRST_SCREEN = [
    ("related", "together, personal", "alone, as many steps"),
    ("levels", "together, personal", "alone, as many steps"),
    ("related", "home: together, personal", "home: alone, as many steps"),
    ("main", "fed-se, personal", "local-evolve, as many steps"),
]


def test_the_readme_repeats_published_figures_and_verdicts():
    rows = re.findall(
        r"^\| (?:[^|]+ \| )?an? .* \| ([\d.]+ %) \| ([\d.]+ %) \| (.+) \|$", README, flags=re.M
    )
    told = []
    for table, arm, against in ON_THE_FIRST_SCREEN:
        figures = published(table)
        verdict = figures.answers[f"{arm} against {against}"]
        told.append((figures.success[arm], figures.success[against], verdict))
    assert [row for row in rows if row in told] == told
    pooled = published("related").success["in one place"]
    assert f"training in one place on everybody's episodes reached {pooled}" in README


def test_its_commands_can_be_typed():
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.M | re.S)
    lines = "".join(blocks).splitlines()
    assert len(lines) == 3
    app = build_app()
    assert [line for line in lines if not can_be_typed(app, line)] == []
