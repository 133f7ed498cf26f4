"""The page of a service."""

import re

from fedse_serve.canary import Decision, Figure
from fedse_serve.moves import Move
from fedse_serve.page import chart_of, headline, service_page
from fedse_serve.status import ArmCoverage, Day, Moved, Status

A, B = "a" * 64, "b" * 64
FIGURE = Figure(
    metric="success",
    canary_true=3,
    canary_all=10,
    stable_true=8,
    stable_all=10,
    evidence=2.5,
    needed=40.0,
)
DECISION = Decision(
    verdict="go on",
    share=0.05,
    reason="undecided at 5 %",
    figures=(FIGURE,),
    promotion=0.5,
    ended={"canary": 10, "stable": 10},
    labelled={"canary": 10, "stable": 10},
    mixed=0,
    repeated=0,
)
DAYS = (
    Day(day="2026-11-06", adapter=A, sessions=20, labelled=10, successes=8),
    Day(day="2026-11-06", adapter=B, sessions=20, labelled=10, successes=3),
    Day(day="2026-11-07", adapter=A, sessions=5, labelled=0, successes=0),
)


def status(*moves: Move, share: float = 0.05) -> Status:
    return Status(
        current=A,
        pinned=False,
        candidate=B if share else None,
        share=share,
        waiting=None,
        decision=DECISION if share else None,
        days=DAYS,
        coverage=(ArmCoverage(arm="stable", labelled=10, unlabelled=10, waiting=5),),
        moves=tuple(Moved(time=0.0, move=move) for move in moves),
    )


def test_a_page_loads_nothing_and_escapes_reasons() -> None:
    move = Move(kind="offered", adapter=B, reason="<script>alert(1)</script>")
    text = service_page(status(move), name="books", now=0.0)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", text)
    assert "3 of 10" in text


def test_marks_are_where_the_rates_are() -> None:
    chart = chart_of(DAYS)
    # A day without labels has no mark.
    assert len(chart.marks) == 2
    high, low = chart.marks
    bottom, top = chart.grid[0].y, chart.grid[-1].y
    assert abs(high.y - (bottom + 0.8 * (top - bottom))) < 0.1
    assert abs(low.y - (bottom + 0.3 * (top - bottom))) < 0.1
    for mark in chart.marks:
        assert top <= mark.high < mark.y < mark.low <= bottom
    assert len(chart_of(()).marks) == 0


def test_the_headline_names_the_last_verdict() -> None:
    assert headline(status()) == "An adapter is on trial in 5 % of the sessions"
    back = Move(kind="rolled back", adapter=B, reason="worse")
    assert headline(status(back, share=0)) == f"Adapter {B[:12]} was rolled back"
    assert headline(status(share=0)) == "One adapter serves everybody"
