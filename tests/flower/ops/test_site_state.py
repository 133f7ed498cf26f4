"""What `fedse site status` says is what runs, and it fails exactly if no worker does."""

import json
import os
import sys

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.errors import RunError
from fedse.federation.line import FILE, ServerLine, write_line
from fedse.flower.ops.site_state import SiteState, site_state
from fedse.processes.group import Processes
from fedse.site.rules import set_pause
from tests.federation.scene import Scene

REFUSED = "cannot reach fed.example.org:8443: refused; retrying"
SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_site_that_was_not_started_has_nothing_running(scene: Scene):
    assert site_state(scene.join()) == SiteState(False, False, False, False, "")


def test_what_runs_is_seen_until_it_ends(scene: Scene):
    home = scene.join()
    with Processes(home.path / "logs", os.environ) as processes:
        processes.start("worker", SLEEPS)
        assert site_state(home) == SiteState(True, False, False, False, "")
        processes.start("node", SLEEPS)
        (home.path / "node.id").write_text("7\n")
        write_line(home.path / FILE, ServerLine(state="unreachable", reason="refused", since=1))
        set_pause(home.policy, True)
        assert site_state(home) == SiteState(True, True, True, True, REFUSED)
    assert site_state(home) == SiteState(False, False, True, True, "")


def test_the_command_fails_exactly_if_no_worker_runs(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    home = scene.join()
    asked = ["site", "status", "--home", str(home.path), "--json"]
    assert start(asked) == RunError.exit_code
    told = capsys.readouterr()
    assert json.loads(told.out)["worker"] is False
    assert f"fedse site start --home {home.path}" in told.err
    with Processes(home.path / "logs", os.environ) as processes:
        processes.start("worker", SLEEPS)
        assert start(asked) == 0
    assert json.loads(capsys.readouterr().out) == {
        "site": "alpha",
        "worker": True,
        "node": False,
        "let_in": False,
        "paused": False,
        "line": "",
        "proposed": [],
    }
