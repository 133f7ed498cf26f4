"""A site's console: reached or not and why, each stage of a round once, sent when it is sent."""

import json
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.federation.line import FILE, ServerLine, read_line, write_line
from fedse.flower.ops.site_console import UNREACHABLE_SECONDS, SiteConsole
from tests.federation.scene import Scene

SERVER = "fed.example.org:8443"


class Console:
    """A console at a site whose files are written by hand."""

    def __init__(self, scene: Scene) -> None:
        self.home, self.told, self.shown = scene.join(), list[str](), list[str]()
        self.log = self.home.path / "worker.log"
        self.log.write_text('2026 INFO {"event": "train.started", "round": 1, "lessons": 2}\n')
        self._console = SiteConsole(self.home, tell=self.told.append, show=self.shown.append)

    def emit(self, event: str, **facts: object) -> None:
        with self.log.open("a") as log:
            log.write(f"2026-11-16 12:00:00,000 INFO {json.dumps({'event': event, **facts})}\n")

    def line(self, **facts: object) -> None:
        write_line(self.home.path / FILE, ServerLine(since=100, **facts))

    def new(self, now: float = 100.0) -> list[str]:
        """What was told by a look."""
        before = len(self.told)
        self._console.look(now)
        return self.told[before:]


@pytest.fixture
def console(scene: Scene) -> Console:
    return Console(scene)


def test_a_round_is_told_stage_by_stage(console: Console):
    assert console.new() == [], "what was logged before is known"
    console.line(state="connected")
    assert console.new() == [f"connected to {SERVER}"]
    console.emit("rollout.started", client="alpha", round=3, episodes=48)
    console.emit("rollout.progress", client="alpha", round=3, played=9, won=1)
    console.emit("train.started", client="alpha", round=3, lessons=7)
    assert console.new() == ["round 3: playing 48 games", "round 3: training on 7 kept games"]
    console.emit("upload.started", client="alpha", round=3, bytes=530_000)
    assert console.new() == ["round 3: sending 0.53 MB"]
    console.line(state="connected", sent=120)
    assert console.new() == ["round 3: sent; waits for the next question"]
    assert console.new() == []
    assert console.shown[-1] == f"connected to {SERVER}, {console.told[-1]}"


def test_why_the_server_is_not_reached_is_told_once_and_only_if_it_lasts(console: Console):
    console.line(state="unreachable", reason="Connection refused")
    assert console.new(100 + UNREACHABLE_SECONDS - 0.1) == []
    why = f"cannot reach {SERVER}: Connection refused; retrying"
    assert console.new(100 + UNREACHABLE_SECONDS) == [why]
    assert console.new(500) == []
    console.line(state="refused", reason="HTTP 401")
    (told,) = console.new()
    assert told.startswith(f"{SERVER} refuses this site: HTTP 401 (is this site enrolled")
    console.line(state="connected")
    assert console.new() == [f"connected to {SERVER}"]


def test_an_alarm_of_the_site_itself_is_told_at_the_site(console: Console):
    console.new()
    console.emit("site.alarm", round=2, alarm="x", text="no gradient is long", next="look")
    assert console.new() == ["round 2: ALARM no gradient is long; next: look"]


def test_a_log_that_begins_anew_is_followed_and_other_lines_are_left_out(console: Console):
    console.log.write_text('2026 INFO {"event": "site.paused", "round": 4}\n')
    assert console.new() == ["round 4: paused, no vote"]
    with console.log.open("a") as log:
        log.write('Traceback\n{"event": \n{"event": "train.started", "round": 5}\n{}\n[1]\n')
        log.write('2026 INFO {"event": "train.started", "round": 5, "les')
    assert console.new() == []
    with console.log.open("a") as log:
        log.write('sons": 3}\n')
    assert console.new() == ["round 5: training on 3 kept games"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"state": "lost", "since": 1}'])
def test_a_file_that_is_not_usable_says_nothing(console: Console, text: str):
    (console.home.path / FILE).write_text(text)
    assert read_line(console.home.path / FILE) is None
    assert console.new() == []


def test_a_disk_that_takes_no_file_stops_nothing(tmp_path: Path):
    write_line(tmp_path / "absent" / FILE, ServerLine(state="connected", since=1))
