"""The page on speed: its picture is drawn from its figures, and its commands exist."""

import json
import re
from datetime import date
from pathlib import Path

import pytest

from research.bench.__main__ import app
from research.draw_bench import MISSING, PANELS, Comparison, figure, row_of, svg
from research.measure_bench import COMMANDS, entry, ratios_in, written_down
from tests.docs.test_reference import can_be_typed
from tests.needs import needs

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "explanation" / "speed.md"
FOUND = json.loads((DOCS / "results" / "bench.json").read_text())
BARS = [bar for panel in PANELS for bar in panel.bars]
BAR = Comparison("train", "train", "bare", 0.95)


def test_the_picture_is_drawn_from_the_figures():
    """Made by: python -m research.draw_bench docs/results"""
    needs("vl_convert")
    assert (DOCS / "results" / "bench.svg").read_text() == svg(FOUND)


def as_typed(line: str) -> str:
    """The line with one word for the program."""
    return line.replace("python -m research.bench", "fedse")


def test_the_commands_can_be_typed_and_are_those_that_are_measured():
    typed = re.findall(r"^python -m research\.bench .*$", PAGE.read_text(), flags=re.M)
    assert [line for line in typed if not can_be_typed(app, as_typed(line))] == []
    assert set(COMMANDS.values()) <= set(typed)


def test_every_figure_says_where_it_comes_from():
    assert set(FOUND) <= {bar.entry for bar in BARS}
    for name, one in FOUND.items():
        assert one["command"].startswith(COMMANDS[name])
        assert can_be_typed(app, as_typed(one["command"]))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one["date"])
        assert one["machine"].keys() == {"cores", "processor", "versions"}
        assert any(one["ratios"].values())
        spread = {name: [min(all_of), max(all_of)] for name, all_of in one["ratios"].items()}
        assert one["spread"] == spread


def test_a_bar_is_the_median_and_says_its_aim_and_its_padding():
    found = {"train": {"ratios": {"bare": [1.0, 1.5]}, "padding": 0.124}}
    row = row_of(found, BAR, "at least")
    assert (row["ratio"], row["single"], row["aim"]) == (1.25, [1.0, 1.5], 0.95)
    assert row["told"] == "1.25 (1.00-1.50, n=2), aim: at least 0.95, 12% padding"


def test_every_measurement_and_every_aim_is_inside_its_panel():
    found = {"merge": {"ratios": {"no clip": [4.0, 5.0]}}}
    pace, cost = (plot["layer"][0]["encoding"]["x"] for plot in figure(found)["vconcat"])
    assert pace["scale"]["domain"] == [0, pytest.approx(1.05)]
    assert cost["scale"]["domain"] == [0, pytest.approx(5.25)]


@pytest.mark.parametrize("found", [{}, {"train": {}}, {"train": {"ratios": {"bare": []}}}])
def test_what_was_not_measured_is_said_to_be_so(found: dict[str, object]):
    assert row_of(found, BAR, "at least")["told"] == f"{MISSING}, aim: at least 0.95"
    drawn = [row for plot in figure(found)["vconcat"] for row in plot["data"]["values"]]
    assert [row["label"] for row in drawn] == [bar.label for bar in BARS]
    assert {row["ratio"] for row in drawn} == {None}


def test_ratios_are_read_from_what_the_commands_print():
    printed = [
        {"ratios": {"bare": 0.9, "generate": 7.0}},
        {"ratios": {"bare": 1.0, "generate": 8.0}},
    ]
    assert ratios_in(printed) == {"bare": [0.9, 1.0], "generate": [7.0, 8.0]}
    assert ratios_in({"ratios": [2.5]}) == {"bare": [2.5]}


def test_no_path_of_a_machine_is_written_down():
    settings = ["train.batch=2", "engine.python=/opt/x/bin/python"]
    bench = "python -m research.bench merge"
    assert written_down(bench, settings) == f"{bench} --set train.batch=2"


def test_an_entry_keeps_three_digits():
    printed = [{"ratios": {"bare": 1.23456}, "padding": 0.12345}]
    made = entry("python -m x", printed, machine={"cores": 2}, day=date(2026, 1, 2))
    assert made == {
        "ratios": {"bare": [1.235]},
        "spread": {"bare": [1.235, 1.235]},
        "padding": 0.123,
        "command": "python -m x",
        "date": "2026-01-02",
        "machine": {"cores": 2},
    }
