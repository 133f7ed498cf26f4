"""The page of a service: success by day and adapter, the trial, and every move with its reason."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from fedse._version import __version__
from fedse.report.page import asset, source_digest, template
from fedse.stats.rates import Rate
from fedse_serve.status import Day, Status, named

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 260, 44, 12, 30
SERIES = 5
"""Colours; further adapters use them again."""
CHART_STYLE = ".grid { stroke: var(--grid); } .axis { fill: var(--soft); font-size: 12px; }\n"


class Column(NamedTuple):
    title: str
    number: bool = False


class Part(NamedTuple):
    """A section with a table."""

    id: str
    title: str
    lead: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


class Tile(NamedTuple):
    title: str
    value: str
    detail: str


class At(NamedTuple):
    """A text at one place of an axis."""

    text: str
    x: float = 0.0
    y: float = 0.0


class Mark(NamedTuple):
    """One day of one adapter, in the chart's coordinates."""

    series: int
    x: float
    y: float
    low: float
    high: float


class Entry(NamedTuple):
    series: int
    text: str


class Chart(NamedTuple):
    grid: Sequence[At]
    days: Sequence[At]
    marks: Sequence[Mark]
    legend: Sequence[Entry]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def service_page(status: Status, *, name: str, now: float) -> str:
    """One HTML file that loads no other and contains nothing that anybody said."""
    style = asset("page.css") + CHART_STYLE
    page = template("page.html.j2", "fedse_serve").render(
        name=name,
        headline=headline(status),
        made=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        serving=named(status.current) + (", pinned" if status.pinned else ""),
        candidate=named(status.candidate) if status.candidate else "",
        share=f"{100 * status.share:g} %",
        tiles=tiles(status),
        chart=chart_of(status.days),
        parts=[*_parts(status)],
        style=style,
        style_digest=source_digest(style),
        version=__version__,
    )
    return str(page)


def headline(status: Status) -> str:
    """The page in one sentence."""
    ends = [moved.move for moved in status.moves if moved.move.kind in ("promoted", "rolled back")]
    if status.candidate and status.share:
        return f"An adapter is on trial in {100 * status.share:g} % of the sessions"
    if not ends:
        return "One adapter serves everybody"
    done = "was rolled back" if ends[-1].kind == "rolled back" else "was promoted"
    return f"Adapter {named(ends[-1].adapter)} {done}"


def tiles(status: Status) -> list[Tile]:
    """First day against last day, labels, and what was rolled back."""
    labelled = sum(arm.labelled for arm in status.coverage)
    over = labelled + sum(arm.unlabelled for arm in status.coverage)
    waiting = sum(arm.waiting for arm in status.coverage)
    moved = [one.move.kind for one in status.moves]
    found = [
        Tile("sessions with a label", f"{labelled:,} of {over:,}", f"{waiting:,} may still get one")
    ]
    days = sorted({day.day for day in status.days})
    for title, day in (("success, first day", days[:1]), ("success, last day", days[-1:])):
        rate = _rate([one for one in status.days if one.day in day])
        if rate.n:
            low, high = rate.interval
            found.append(
                Tile(title, f"{100 * rate.value:.0f} %", f"{100 * low:.0f} to {100 * high:.0f} %")
            )
    done = f"{moved.count('promoted')} promoted, {moved.count('withdrawn')} withdrawn"
    return [*found, Tile("rolled back", str(moved.count("rolled back")), done)]


def chart_of(days: Sequence[Day]) -> Chart:
    """Where everything is drawn."""
    names = [*dict.fromkeys(day.day for day in days)]
    adapters = [*dict.fromkeys(day.adapter for day in days)]
    step = (WIDTH - LEFT) / max(len(names), 1)
    centre = {name: LEFT + step * (place + 0.5) for place, name in enumerate(names)}
    shown = names[:: max(1, len(names) // 8)]
    marks = []
    for day in days:
        if day.labelled:
            place = adapters.index(day.adapter) - (len(adapters) - 1) / 2
            x = centre[day.day] + place * min(14.0, step / (len(adapters) + 1))
            low, high = day.rate.interval
            series = adapters.index(day.adapter) % SERIES
            marks.append(Mark(series, round(x, 1), _y(day.rate.value), _y(low), _y(high)))
    return Chart(
        grid=[At(f"{percent} %", y=_y(percent / 100)) for percent in (0, 25, 50, 75, 100)],
        days=[At(name[5:], x=round(centre[name], 1)) for name in shown],
        marks=marks,
        legend=[Entry(place % SERIES, named(one)) for place, one in enumerate(adapters)],
    )


def _y(rate: float) -> float:
    return round(TOP + (1 - rate) * (HEIGHT - TOP - BOTTOM), 1)


def _rate(days: Sequence[Day]) -> Rate:
    return Rate(sum(day.successes for day in days), sum(day.labelled for day in days))


def _parts(status: Status) -> list[Part]:
    return [*_trial(status), _by_day(status), _coverage(status), _moves(status)]


def _trial(status: Status) -> list[Part]:
    if status.decision is None:
        return []
    columns = [
        Column("what"),
        Column("candidate", True),
        Column("present adapter", True),
        Column("evidence of harm", True),
        Column("rolled back at", True),
    ]
    rows = [
        (
            figure.metric,
            f"{figure.canary_true} of {figure.canary_all}",
            f"{figure.stable_true} of {figure.stable_all}",
            f"{figure.evidence:g}",
            f"{figure.needed:g}",
        )
        for figure in status.decision.figures
    ]
    lead = f"{status.decision.verdict}: {status.decision.reason}."
    return [Part("trial", "The candidate's trial", lead, columns, rows)]


def _by_day(status: Status) -> Part:
    columns = [
        Column("day"),
        Column("adapter"),
        Column("sessions", True),
        Column("with a label", True),
        Column("success", True),
        Column("95 % interval", True),
    ]
    rows = []
    for day in status.days:
        low, high = day.rate.interval if day.labelled else (0.0, 0.0)
        rate = f"{100 * day.rate.value:.0f} %" if day.labelled else "none"
        span = f"{100 * low:.0f} to {100 * high:.0f} %" if day.labelled else "none"
        counts = (f"{day.sessions:,}", f"{day.labelled:,}")
        rows.append((day.day, named(day.adapter), *counts, rate, span))
    return Part("table", "Days", "The numbers of the chart.", columns, rows)


def _coverage(status: Status) -> Part:
    columns = [Column("arm"), *(Column(t, True) for t in ("labelled", "no label", "waiting"))]
    rows = [
        (arm.arm, f"{arm.labelled:,}", f"{arm.unlabelled:,}", f"{arm.waiting:,}")
        for arm in status.coverage
    ]
    lead = "If the arms differ in how many sessions get a label, their success cannot be compared."
    return Part("coverage", "Labels", lead, columns, rows)


def _moves(status: Status) -> Part:
    columns = [Column("time (UTC)"), Column("adapter"), Column("move"), Column("why")]
    rows = []
    for moved in reversed(status.moves):
        at = datetime.fromtimestamp(moved.time, UTC).strftime("%Y-%m-%d %H:%M")
        share = f" {100 * moved.move.share:g} %" if moved.move.share else ""
        move = f"{moved.move.kind}{share}"
        rows.append((at, named(moved.move.adapter), move, moved.move.reason))
    lead = "Each one is a signed line of the service's ledger."
    return Part("moves", "Moves of adapters", lead, columns, rows)
