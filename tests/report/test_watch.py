"""The coordinator's page in a real browser: live, accessible, silent towards other hosts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.needs import lacking, needs

needs("websockets")

from fedse.cli.coordinator_page import page_app
from fedse.observers.health import Watch, health_app, served
from tests.report.browser import Page, browser, chromium
from tests.report.test_browser import AXE, INTRUDE, VIOLATIONS, WIDTH

HERE = "127.0.0.1"
EVIL = "<img src=x onerror=document.title=1>"
NOW = time.time()


def presence(doing: str, since: float | None, connected: float | None) -> dict[str, Any]:
    return {"doing": doing, "since": since, "round": 3, "connected": connected}


def site(name: str, now: dict[str, Any] | None, last: str = "voted") -> dict[str, Any]:
    return {"name": name, "state": "enrolled", "now": now, "last": last}


def status() -> dict[str, Any]:
    success = {"rate": 0.25, "low": 0.1, "high": 0.5, "games": 48}
    rounds = {"without_vote": [], "seconds": 12.5}
    newest = {"round": 2, "voted": ["a", "b"], "excluded": {"c": f"rejected: {EVIL}"}}
    first = {"round": 1, "voted": ["a"], "excluded": {}}
    return {
        "federation": EVIL,
        "server": "fed.example.org:8443",
        "fingerprint": "12ab-34cd",
        "serving": True,
        "time": NOW,
        "round": 2,
        "rounds": 5,
        "expected": 3,
        "connected": 1,
        "waiting_for": ["a", "b"],
        "waiting": "waiting for 2 of 3 sites: a, b",
        "sites": [
            site("a", presence("working", NOW - 9, NOW - 99)),
            site("b", presence("silent", NOW - 30, None)),
            site("c", presence("idle", NOW - 99, NOW - 99), f"excluded: rejected: {EVIL}"),
            site("d", None, ""),
        ],
        "quarantined": ["c"],
        "last_rounds": [
            {**newest, **rounds, "absent": ["d"], "success": None},
            {**first, **rounds, "absent": [], "success": success},
        ],
        "ledger": "f" * 64,
        "certificates": {"server": {"ends": "2027-11-16", "days_left": 365}},
        "warnings": [],
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = chromium() or lacking("Chromium is not installed: apt-get install chromium")
    with browser(program, tmp_path_factory.mktemp("profile"), reaches=HERE) as tab:
        yield tab


@contextmanager
def coordinator(report: dict[str, Any]) -> Iterator[str]:
    watch = Watch(clock=time.monotonic, patience=60)
    with served(HERE, 0, page_app(lambda: report, health_app(watch), host=HERE)) as port:
        yield f"http://{HERE}:{port}"


CELLS = """[...document.querySelectorAll('#%s tr')].map((row) =>
  [...row.cells].map((cell) => cell.textContent))"""
TEXT = "document.getElementById('%s').textContent"


def test_the_page_shows_who_does_what_and_follows_it(page: Page):
    report = status()
    page.requests.clear()
    page.complaints.clear()
    page.look(width=1280, dark=False)
    with coordinator(report) as here:
        page.open_url(f"{here}/")
        sites = page.ask(CELLS % "sites")
        assert [row[:2] for row in sites] == [
            ["a", "working on round 3"],
            ["b", "silent"],
            ["c", "connected, not asked yet"],
            ["d", "\N{EN DASH}"],
        ]
        assert sites[2][4:] == ["enrolled, quarantined", f"excluded: rejected: {EVIL}"]
        assert page.ask(TEXT % "connected") == "1 of 3"
        assert page.ask(TEXT % "waiting") == "waiting for 2 of 3 sites: a, b"
        assert page.ask(TEXT % "interval") == "0.10 to 0.50 (95 %), after round 1"
        assert page.ask(TEXT % "quarantined").endswith("until pardoned: c")
        assert page.ask(TEXT % "ledger") == "f" * 64
        assert [row[1:4] for row in page.ask(CELLS % "rounds")] == [
            ["2", "\N{EN DASH}", "\N{EN DASH}"],
            ["1", "0.25", "0.10 to 0.50"],
        ]
        assert page.ask(TEXT % "federation") == f"Federation {EVIL}"
        assert page.ask("document.images.length") == 0
        report["waiting"] = "all 3 sites have answered"
        page.wait(f"{TEXT % 'waiting'} === 'all 3 sites have answered'")
        assert page.ask("document.getElementById('unanswered').hidden")
        assert {*page.requests} == {f"{here}/", f"{here}/status"}
        assert page.complaints == []
    page.wait("!document.getElementById('unanswered').hidden")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible_and_fits_a_phone(page: Page, dark: bool):
    with coordinator(status()) as here:
        page.look(width=390, dark=dark)
        page.open_url(f"{here}/")
        # Given by the test's own channel, which the page's policy does not bind.
        page.ask(f"{AXE};0")
        for width in (390, 1280):
            page.look(width=width, dark=dark)
            page.wait(f"{WIDTH} <= {width}")
            assert page.ask(VIOLATIONS % "") == [], (width, dark)


def test_the_policy_stops_intruders(page: Page):
    with coordinator(status()) as here:
        page.open_url(f"{here}/")
        assert page.ask(INTRUDE) == "undefined"
