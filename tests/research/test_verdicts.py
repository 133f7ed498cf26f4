"""A row is what the games say, for the pinned tables and for those of any other model."""

import re
from functools import cache
from pathlib import Path

import pytest
from pydantic import ValidationError

from fedse.stats.paired import holm, paired_difference
from fedse.stats.rates import Rate
from fedse_reproduce.results import answers
from research.make_results_page import read
from research.verdicts import (
    PINNED,
    SMALL,
    Case,
    Cases,
    Verdict,
    difference_chart,
    games_of,
    of_cases,
    of_pinned,
    opening,
    page_table,
    readme_table,
    success_chart,
    with_table,
)
from tests.run_folders import write_run

GAMES = 40
WON, LOST = {"a": "1" * GAMES, "b": "1" * GAMES}, {"a": "0" * GAMES, "b": "1" * GAMES}
SEEDS = range(3)


def measured(*cases: Case) -> Cases:
    return Cases(
        model="Big-1B, exact",
        command="python -m research.x",
        details="how-to/which-base-model.md",
        cpu_hours=1.5,
        cases=list(cases),
    )


def case(where: str, *, first_screen: bool = True, against: str = "alone") -> Case:
    together, other = dict.fromkeys(SEEDS, WON), dict.fromkeys(SEEDS, LOST)
    return Case(
        where=where, together=together, other=other, first_screen=first_screen, against=against
    )


@cache
def rows() -> list[Verdict]:
    found = read()
    asked = measured(case("a shop; new shops"), case("a shop; its own tasks", first_screen=False))
    return [*of_cases(asked), *(of_pinned(one, found[one.table]) for one in PINNED)]


def test_a_row_of_games_is_their_paired_difference_corrected_for_all_of_the_file():
    first, second = of_cases(measured(case("a shop; new shops"), case("a shop; its own")))
    assert (first.together, first.other) == (Rate(240, 240), Rate(120, 240))
    won, lost = ([[bit == "1" for bit in one["a"] + one["b"]]] * 3 for one in (WON, LOST))
    alone = paired_difference(won, lost, seed=0)
    p = holm({"one": alone.p, "other": alone.p})["one"]
    assert first.difference == second.difference == alone._replace(p=p)
    assert p == 2 * alone.p
    assert (first.verdict, first.seeds, first.against) == ("higher", 3, "alone")


def test_games_that_are_not_the_same_are_refused():
    fewer = case("a shop; new shops").model_copy(update={"other": {0: LOST}})
    with pytest.raises(ValueError, match="a shop; new shops: expected the same games"):
        list(of_cases(measured(fewer)))
    with pytest.raises(ValueError, match="the first screen compares with alone only"):
        list(of_cases(measured(case("a shop; new shops", against="pooled"))))
    with pytest.raises(ValidationError, match="cpu_hours"):
        Cases.model_validate({"model": "x", "command": "", "details": "", "cases": []})


def test_the_games_of_a_run_are_taken_as_they_were_played(tmp_path: Path):
    run = write_run(tmp_path / "x", {"maze-a": [True, False, True], "maze-b": [False] * 3})
    assert games_of(run) == {"maze-a": "101", "maze-b": "000"}


def test_a_question_is_told_from_the_side_of_those_who_learn_together():
    found = read()
    (asked,) = [one for one in PINNED if (one.table, one.against) == ("related", "pooled")]
    (answer,) = [one for one in answers(found["related"]) if "in one place" in one.question]
    row, micro = of_pinned(asked, found["related"]), answer.found.micro
    assert answer.question.better == "in one place"
    assert row.difference[:3] == (-micro.value, -micro.high, -micro.low)
    assert (answer.verdict.value, row.verdict) == ("higher", "lower")


def test_other_models_come_first_and_are_named():
    table, readme = (make(rows()).splitlines() for make in (page_table, readme_table))
    assert table[0].startswith("| model | each site has; is tested in |")
    assert table[2].startswith("| Big-1B, exact | [a shop; new shops](how-to/which-base-model.md)")
    assert table[2].endswith("| 100.0 % | 50.0 % alone | +50.0 (43.5 to 56.5) | higher |")
    assert len(table) == 2 + 2 + len(PINNED)
    assert readme[2] == "| Big-1B, exact | a shop; new shops | 100.0 % | 50.0 % | higher |"
    assert [line.startswith(f"| {SMALL} | a ") for line in readme[3:]] == [True] * 4
    assert f"Every figure here is from a model of {SMALL}" not in opening(rows())


def test_only_the_table_of_the_readme_is_replaced():
    before = "text\n\n| each site has, and is tested in | x |\n|---|---|\n| a | 1 |\n\nmore | x |\n"
    after = with_table(before, rows())
    assert after == f"text\n\n{readme_table(rows())}\n\nmore | x |\n"
    assert with_table(after, rows()[2:]) == with_table(before, rows()[2:])


def test_the_charts_show_every_row_and_fit_a_phone():
    shown = rows()
    for chart, marks in ((success_chart(shown), 2), (difference_chart(shown), 1)):
        _, points, names = chart["layer"]
        assert len(points["data"]["values"]) == marks * len(shown)
        told = [one["name"] for one in names["data"]["values"]]
        assert [re.split(r" [(\[]", name)[0] for name in told] == [row.where for row in shown]
        assert told[0] == "a shop; new shops [Big-1B]"
        assert chart["width"] <= 340
