"""The page on scale: its figures are those that were measured, and follow from its laws."""

import json
import re
from pathlib import Path

from fedse.cli.app import build_app
from tests.docs.test_reference import can_be_typed

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "scale.md").read_text()
FOUND = json.loads((DOCS / "results" / "tree.json").read_text())

ADAPTER, ROUNDS = 0.084, 20
"""GB of an adapter, rounds of an experiment."""
PER_GB = 0.09
"""USD, assumed."""


def row(name: str) -> list[str]:
    """The cells of the one row that begins so."""
    (line,) = re.findall(rf"^\| {re.escape(name)} \| (.+) \|$", PAGE, flags=re.M)
    return line.split(" | ")


def test_its_commands_can_be_typed():
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.M | re.S)
    lines = "\n".join(blocks).splitlines()
    assert len(lines) == 3
    app = build_app()
    assert [line for line in lines if not can_be_typed(app, line)] == []


def test_what_was_measured_is_on_the_page():
    figures = FOUND["sums"]["measured"]
    rows = {
        "bytes of a region's sum": [f"{one['sum_mb']:.0f} MB" for one in figures],
        "check a vote, CPU-s": [f"{one['check_cpu_seconds_per_vote']:.3f}" for one in figures],
        "add a vote exactly, CPU-s": [
            f"{one['exact_cpu_seconds_per_vote']:.3f}" for one in figures
        ],
        "above: merge the sum of a region, CPU-s": [
            f"{one['root_cpu_seconds_per_region']:.3f}" for one in figures
        ],
        "same digest as one server": ["yes" if one["same_digest"] else "no" for one in figures],
    }
    assert {name: row(name) for name in rows} == rows
    for part in FOUND.values():
        assert part["command"] in PAGE
    names = FOUND["names"]["measured"]
    above = [one["root_ms_per_site_and_round"] for one in names]
    assert row("CPU time above, ms") == [f"{one:.2f}" for one in above]
    thousands = [10, 100]
    expected = [f"{above[1] * one:.0f} CPU-s" for one in thousands]
    assert row("above: names and numbers")[1:] == expected


def test_what_is_computed_follows_from_the_laws():
    regions, sites = 100, 100
    each = f"{sites * ADAPTER:.1f} GB"
    assert row("a region: down, up")[1] == f"{each}, {each}"
    planes = FOUND["sums"]["measured"][1]["planes"]
    assert row("above: down")[1] == f"{regions * ADAPTER:.1f} GB"
    assert row("above: up")[1] == f"{regions * 2 * planes * ADAPTER:.0f} GB"
    assert row("above: up")[2] == f"{316 * 2 * planes * ADAPTER:.0f} GB"
    down = [5 * ADAPTER, 1000 * ADAPTER, regions * ADAPTER]
    told = [float(cell.split()[0]) for cell in row("coordinator: bytes that leave")]
    paid = [ROUNDS * PER_GB * one for one in down]
    assert [round(paid[0], 2), round(paid[1]), round(paid[2])] == told
    leaves = sites * ADAPTER + 2 * planes * ADAPTER
    assert row("each region: bytes that leave")[2] == f"{ROUNDS * PER_GB * leaves:.2f} USD"
