"""Vega-Lite specifications without data: the form of a panel, not its content.

Colours and fills are CSS variables and SVG patterns of the page, so one drawing serves light,
dark and print. Every series also has a dash and a shape, every bar part a pattern.
"""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

Spec = dict[str, Any]
Span = tuple[float, float]

SERIES = 5
"""At most this many lines in one panel."""
COLOURS = [f"var(--s{i})" for i in range(SERIES)]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]
MARKERS = 13
"""At most this many markers on a line; more would hide it."""
MOST_ROUNDS = 100
"""At most about this many rounds in a figure; more could not be told apart."""
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

THEME: Spec = {
    "aria": False,
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)",
        "titleColor": "var(--soft)",
        "gridColor": "var(--grid)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "tickSize": 4,
        "labelFlush": False,
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "tickCount": 4, "labelPadding": 6},
}


def lines(
    y: str, series: Mapping[str, int], *, by: str, rounds: Span, span: Span, tip: str
) -> Spec:
    """One line per value of column `by`; `series` gives each value its style."""
    names = list(series)
    colour = {"field": by, "type": "nominal", "scale": _scale(names, series, COLOURS)}
    dash = {"field": by, "type": "nominal", "scale": _scale(names, series, DASHES)}
    shape = {"field": by, "type": "nominal", "scale": _scale(names, series, SHAPES)}
    position = {"x": _rounds_axis(rounds), "y": _value_axis(y, span, "")}
    tooltip = [
        _tooltip_field(by, by),
        _tooltip_field("round", "round", "d"),
        _tooltip_field(y, y, tip),
    ]
    return _panel(
        {
            "mark": {"type": "line", "strokeWidth": 2, "clip": False},
            "encoding": {
                **position,
                "color": {**colour, "legend": None},
                "strokeDash": {**dash, "legend": None},
            },
        },
        {
            "transform": _thinned(rounds),
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 42},
            "encoding": {
                **position,
                "color": {**colour, "legend": None},
                "shape": {**shape, "legend": None},
                "tooltip": tooltip,
            },
        },
    )


def line(y: str, *, rounds: Span, span: Span, tip: str) -> Spec:
    """A single line over the rounds."""
    position = {"x": _rounds_axis(rounds), "y": _value_axis(y, span, "")}
    tooltip = [_tooltip_field("round", "round", "d"), _tooltip_field(y, y, tip)]
    return _panel(
        {"mark": {"type": "line", "color": "var(--s0)", "strokeWidth": 2}, "encoding": position},
        {
            "transform": _thinned(rounds),
            "mark": {"type": "point", "filled": True, "color": "var(--s0)", "opacity": 1},
            "encoding": {**position, "size": {"value": 42}, "tooltip": tooltip},
        },
    )


def band(
    middle: str, span: Span, told: Sequence[tuple[str, str]], *, rounds: Span, tip: str
) -> Spec:
    """A line over the rounds in a band; columns round, `middle`, low, high, as they are told."""
    x, y = _rounds_axis(rounds), _value_axis(middle, span, "")
    tooltip = [
        _tooltip_field("round", "round", "d"),
        *(_tooltip_field(key, title, tip) for key, title in told),
    ]
    limits = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return _panel(
        {"mark": {"type": "area", "color": "var(--s0)", "opacity": 0.18}, "encoding": limits},
        {
            "mark": {"type": "line", "color": "var(--s0)", "strokeWidth": 2},
            "encoding": {"x": x, "y": y},
        },
        {
            "transform": _thinned(rounds),
            "mark": {"type": "point", "filled": True, "color": "var(--s0)", "opacity": 1},
            "encoding": {"x": x, "y": y, "size": {"value": 42}, "tooltip": tooltip},
        },
    )


def bars(
    parts: Sequence[str], *, rounds: Span, span: Span, title: str, fills: str, tip: str
) -> Spec:
    """One stacked bar per round, the columns `parts` from the bottom up."""
    rank = " : ".join(f"datum.part == '{part}' ? {i}" for i, part in enumerate(parts))
    patterns = [f"url(#{fills}-{part})" for part in parts]
    return _panel(
        {
            "transform": [
                {"fold": list(parts), "as": ["part", "amount"]},
                {"calculate": f"{rank} : {len(parts)}", "as": "rank"},
            ],
            "mark": {"type": "bar", "stroke": "var(--paper)", "strokeWidth": 0.5},
            "encoding": {
                "x": {
                    "field": "round",
                    "type": "ordinal",
                    "scale": {"paddingInner": 0.18, "paddingOuter": 0.1},
                    "axis": {"title": "round", "labelAngle": 0, "values": named_rounds(rounds)},
                },
                "y": _value_axis("amount", span, title),
                "fill": {
                    "field": "part",
                    "type": "nominal",
                    "scale": {"domain": list(parts), "range": patterns},
                    "legend": None,
                },
                "order": {"field": "rank"},
                "tooltip": [
                    _tooltip_field("round", "round", "d"),
                    _tooltip_field("part", "part"),
                    _tooltip_field("amount", title or "amount", tip),
                ],
            },
        },
    )


def _panel(*layers: Spec) -> Spec:
    return {
        "height": 168,
        "autosize": {"type": "fit", "contains": "padding", "resize": True},
        "padding": {"left": 2, "right": 8, "top": 8, "bottom": 2},
        "layer": list(layers),
    }


def _scale(names: Sequence[str], series: Mapping[str, int], styles: Sequence[Any]) -> Spec:
    return {"domain": list(names), "range": [styles[series[name]] for name in names]}


def _rounds_axis(rounds: Span) -> Spec:
    first, last = rounds
    alone = first == last
    domain = [first - 0.5, last + 0.5] if alone else [first, last]
    axis: Spec = {"title": "round", "format": "d", "tickMinStep": 1, "labelBound": False}
    axis |= {"values": [first]} if alone else {"tickCount": 6}
    scale = {"domain": domain, "nice": False, "zero": False}
    return {"field": "round", "type": "quantitative", "scale": scale, "axis": axis}


def _value_axis(field: str, span: Span, title: str) -> Spec:
    low, high = round_span(span)
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": title or None, "format": "~s" if high >= 10_000 else ",.3~r"},
    }


def round_span(span: Span) -> Span:
    """The span widened to whole steps (1, 2, 2.5 or 5 times a power of ten), about four of them."""
    low, high = span
    if not high > low:
        return low, low + 1.0
    raw = (high - low) / 4
    power = 10.0 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * (1 - 1e-9))
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step


def named_rounds(rounds: Span) -> list[int]:
    """The rounds written under bars: at most about ten, in whole steps."""
    first, last = int(rounds[0]), int(rounds[1])
    step = next(s for s in (*STEPS, last) if (last - first) / s <= 10)
    return [index for index in range(first, last + 1) if index % step == 0]


def shown_step(rounds: Span, most: int = MOST_ROUNDS) -> int:
    """Every how many rounds one is shown, so that at most about so many are."""
    count = int(rounds[1] - rounds[0])
    return next((s for s in STEPS if count / s <= most), ceil(count / most))


def _thinned(rounds: Span) -> list[Spec]:
    """Markers on every n-th round and on the last one."""
    first, last = int(rounds[0]), int(rounds[1])
    step = shown_step(rounds)
    every = ceil((last - first + 1) / MARKERS / step) * step
    if every == 1:
        return []
    return [{"filter": f"datum.round % {every} == 0 || datum.round == {last}"}]


def _tooltip_field(field: str, title: str, number: str = "") -> Spec:
    if not number:
        return {"field": field, "type": "nominal", "title": title}
    return {"field": field, "type": "quantitative", "title": title, "format": number}
