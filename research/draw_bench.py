"""Draw docs/results/bench.svg: what fedse costs beside the bare tools, with the aims.

    python -m research.draw_bench docs/results

Reads bench.json of that folder, which `research/measure_bench.py` writes. A comparison that is not
there is drawn as not measured. Needs `pip install vl-convert-python`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from research.vega import BLUE, GREY, SCHEMA, VERMILLION, svg_of

MISSING = "not measured"
# In px. Fixed, so that the drawing does not depend on the fonts of the machine that draws.
WIDTH, BAR_STEP, NAMES, TOLD = 320, 34, 200, 300


class Comparison(NamedTuple):
    """One bar: an entry of bench.json, and which of its ratios."""

    label: str
    entry: str
    other: str
    aim: float | None = None


class Panel(NamedTuple):
    """Bars of one scale, for all of which the same direction is better."""

    title: str
    aim: str
    """How an aim is written before its number."""
    bars: Sequence[Comparison]


PANELS = (
    Panel(
        "tokens per second, fedse / other (longer is faster)",
        "at least",
        (
            Comparison("play / bare vLLM server", "rollout", "bare", 0.95),
            Comparison("play / re-encoding generate()", "generate", "re-encoded"),
            Comparison("in-process / generate(), cached", "in-process", "generate"),
            Comparison("train / bare PEFT loop", "train", "bare", 0.95),
        ),
    ),
    Panel(
        "CPU seconds, fedse / other (shorter is cheaper)",
        "at most",
        (
            Comparison("round / bare Flower app", "round", "bare", 1.05),
            Comparison("merge / numpy +=, no clip", "merge", "no clip"),
            Comparison("merge, clipped / numpy +=", "merge", "clipped at the median"),
        ),
    ),
)


def ratios_of(found: Mapping[str, Any], bar: Comparison) -> list[float]:
    """Every measured ratio of a bar; none where it was not measured."""
    ratios: list[float] = found.get(bar.entry, {}).get("ratios", {}).get(bar.other, [])
    return ratios


def row_of(found: Mapping[str, Any], bar: Comparison, aim: str) -> dict[str, Any]:
    """What is drawn of one comparison."""
    ratios = ratios_of(found, bar)
    padding = found.get(bar.entry, {}).get("padding")
    told = [
        _median_and_spread(ratios) if ratios else MISSING,
        *([f"aim: {aim} {bar.aim:.2f}"] if bar.aim else []),
        *([f"{padding:.0%} padding"] if padding is not None else []),
    ]
    return {
        "label": bar.label,
        "ratio": median(ratios) if ratios else None,
        "single": ratios,
        "aim": bar.aim,
        "told": ", ".join(told),
    }


def _median_and_spread(ratios: Sequence[float]) -> str:
    if len(ratios) == 1:
        return f"{ratios[0]:.2f}, once"
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}, n={len(ratios)})"


def figure(found: Mapping[str, Any]) -> dict[str, Any]:
    """Both panels below each other, in Vega-Lite."""
    plots = [_plot([row_of(found, bar, p.aim) for bar in p.bars], p.title) for p in PANELS]
    return {
        "$schema": SCHEMA,
        "config": {"background": "white", "font": "sans-serif", "view": {"stroke": None}},
        "padding": 8,
        "vconcat": plots,
        "spacing": 24,
    }


def _plot(rows: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    largest = max([1.0, *(one for r in rows for one in [*r["single"], r["aim"] or 0.0])])
    y = {"field": "label", "type": "nominal", "title": None}
    y["sort"] = [row["label"] for row in rows]
    y["axis"] = {"labelLimit": 0, "ticks": False, "domain": False}
    y["axis"] |= {"minExtent": NAMES, "maxExtent": NAMES, "labelPadding": 8}
    axis = {"grid": True, "tickCount": 5, "format": ".3~g", "titleAnchor": "start"}
    scale = {"domain": [0, largest * 1.05], "nice": False}
    x = {"field": "ratio", "type": "quantitative", "title": title, "scale": scale, "axis": axis}
    singles = [{"label": r["label"], "ratio": one} for r in rows for one in r["single"]]
    layers = [
        {"mark": {"type": "bar", "color": BLUE, "height": 14}, "encoding": {"y": y, "x": x}},
        {
            "data": {"values": singles},
            "mark": {
                "type": "point",
                "filled": True,
                "color": "white",
                "stroke": "black",
                "opacity": 1,
            },
            "encoding": {"y": y, "x": x},
        },
        {
            "mark": {"type": "tick", "color": VERMILLION, "thickness": 3, "size": 24, "opacity": 1},
            "encoding": {"y": y, "x": {**x, "field": "aim"}},
        },
        {
            "mark": {"type": "text", "align": "left", "color": "black"},
            "encoding": {"y": y, "x": {"value": WIDTH + 8}, "text": {"field": "told"}},
        },
        _line({"datum": 1}, color=GREY, strokeDash=[4, 3]),
        _line({"value": WIDTH + TOLD}, opacity=0),
    ]
    plot = {"width": WIDTH, "height": {"step": BAR_STEP}, "layer": layers}
    return {"data": {"values": list(rows)}, **plot}


def _line(x: Mapping[str, Any], **look: Any) -> dict[str, Any]:
    """From top to bottom; one that cannot be seen keeps the room beside the bars."""
    return {"data": {"values": [{}]}, "mark": {"type": "rule", **look}, "encoding": {"x": x}}


def svg(found: Mapping[str, Any]) -> str:
    """The drawing as text."""
    return svg_of(figure(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    (folder / "bench.svg").write_text(svg(json.loads((folder / "bench.json").read_text())))


if __name__ == "__main__":
    main()
