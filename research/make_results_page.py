"""Write docs/results.md, its figures and the table of README.md from the result files.

`python -m research.make_results_page docs` reads expected/TABLE.json of fedse_reproduce,
which `fedse reproduce TABLE` wrote, and the files that research/verdicts.py names. The figures need
`pip install vl-convert-python`; with --text they are not drawn.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedse.stats.paired import Difference
from fedse_reproduce.command import expected
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.results import TableResult, answers, lines
from fedse_reproduce.tell import markdown
from research import leakage_section, protection_section, smollm2_section
from research.measure_transfer import markdown as matrix
from research.vega import BLUE, GREY, SCHEMA, VERMILLION, svg_of
from research.verdicts import (
    Verdict,
    as_json,
    difference_chart,
    opening,
    read_measured,
    success_chart,
    verdicts,
    with_table,
)

TRANSFER = Path(__file__).parents[1] / "docs" / "results" / "transfer.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--text", action="store_true", help="no figures")
    options = parser.parse_args()
    results, folder = read(), options.docs / "results"
    rows = verdicts(results, read_measured())
    (folder / "verdicts.json").write_text(as_json(rows))
    (options.docs / "results.md").write_text(
        page(results, rows, (folder / "reading.txt").read_text())
    )
    readme = options.docs.parent / "README.md"
    readme.write_text(with_table(readme.read_text(), rows))
    if not options.text:
        draw(results, rows, folder)


def read() -> dict[str, TableResult]:
    """The tables that have been made, in the order of TABLES."""
    return {name: result for name in TABLES if (result := expected(name))}


def page(results: dict[str, TableResult], rows: Sequence[Verdict], reading: str) -> str:
    """The whole page: the verdicts, what they mean, written by a person, then every table."""
    parts = [opening(rows) + reading] if rows else [reading]
    for name, result in results.items():
        section = markdown(result)
        head, _, rest = section.partition("\n\n")
        figure = f"![{TABLES[name].title} Success of every arm](results/{name}.svg)"
        parts.append(f"{head}\n\n{figure}\n\n{rest}")
    if smollm2_section.FOUND.is_file():
        parts.append(smollm2_section.section())
    if leakage_section.FOUND.is_file():
        parts.append(leakage_section.section())
    return "\n".join([*parts, protection_section.section(), transfer()])


def transfer() -> str:
    """The adapters of lone clients in the worlds of others."""
    found = json.loads(TRANSFER.read_text())
    return (
        "## One agent or five?\n\n"
        "`python research/measure_transfer.py ROOT docs/results/transfer.json`, ROOT being the"
        f" folder of `fedse reproduce main`; seeds 0 to {found['seeds'] - 1}, the same held-out"
        " games,"
        " Wilson 95 % intervals. Each client's own adapter (local-evolve) in every world, and the"
        f" federated one.\n\n{matrix(found['won_played'])}\n"
    )


LETTER = 5.6
"""Pixels that a letter of a label takes, on average."""


def draw(results: dict[str, TableResult], rows: Sequence[Verdict], folder: Path) -> None:
    (folder / "verdicts-success.svg").write_text(svg_of(success_chart(rows)))
    (folder / "verdicts-difference.svg").write_text(svg_of(difference_chart(rows)))
    for name, result in results.items():
        (folder / f"{name}.svg").write_text(svg_of(figure(result)))
    if smollm2_section.FOUND.is_file():
        (folder / "smollm2.svg").write_text(svg_of(smollm2_section.figure()))


def figure(result: TableResult) -> dict[str, Any]:
    """Left every arm's success with its interval, right every question's difference."""
    arms = [
        {
            "arm": line.arm,
            "value": line.after.value,
            "low": line.after.interval.low,
            "high": line.after.interval.high,
        }
        for line in lines(result)
    ]
    asked = [
        {"question": " - ".join(answer.question), **_interval(answer.found.micro)}
        for answer in answers(result)
    ]
    return {
        "$schema": SCHEMA,
        "config": {"background": "white", "font": "sans-serif", "view": {"stroke": None}},
        "hconcat": [
            _whiskers(arms, "arm", "success on held-out games", BLUE, zero=False),
            _whiskers(asked, "question", "difference", VERMILLION, zero=True),
        ],
    }


def _interval(found: Difference) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _whiskers(
    rows: list[dict[str, Any]], name: str, title: str, colour: str, *, zero: bool
) -> dict[str, Any]:
    y = {"field": name, "type": "nominal", "sort": None, "title": None}
    # Where no browser measures them, labels are taken for narrower than they are, and cut off.
    extent = LETTER * max(len(row[name]) for row in rows)
    y["axis"] = {"labelLimit": 400, "ticks": False, "domain": False, "minExtent": extent}
    scale = {"zero": False, "nice": True}
    x = {"field": "low", "type": "quantitative", "title": title, "scale": scale}
    value = {"field": "value", "type": "quantitative", "title": title}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": colour, "strokeWidth": 2},
            "encoding": {"y": y, "x": x, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": colour, "opacity": 1},
            "encoding": {"y": y, "x": value},
        },
    ]
    if zero:
        line = {"mark": {"type": "rule", "color": GREY, "strokeDash": [4, 3]}}
        layers.insert(0, {**line, "encoding": {"x": {"datum": 0}}})
    return {"data": {"values": rows}, "width": 300, "height": {"step": 28}, "layer": layers}


if __name__ == "__main__":
    main()
