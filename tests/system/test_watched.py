"""A real federation that is watched: a site that is killed at its work is told within 10 s."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.cli.federation_view import view_of
from tests.system.field import Field, field, maze_clients, short_games

pytestmark = [pytest.mark.federated, pytest.mark.slow, pytest.mark.timeout(1500)]

EXPERIMENT = f"""
[run]
name = "watched"
rounds = 1
[model]
rank = 2
{short_games(2)}
[train]
max_steps = 1
[eval]
episodes = 2
{maze_clients(("north", "south"))}
"""
# From the kill until `status` tells it.
TOLD_SECONDS = 10.0
# Only ends what hangs.
START_SECONDS = 900.0


def now_of(here: Field, site: str) -> dict[str, Any]:
    report = view_of(here.federation, now=time.time()).facts()
    (found,) = [one["now"] for one in report["sites"] if one["name"] == site]
    return found or {"doing": "away"}


def shown_doing(page: str) -> list[str]:
    """What the page says that the sites do."""
    shown = httpx.get(f"{page}status", trust_env=False).json()
    return [one["now"]["doing"] for one in shown["sites"]]


def kill_all(here: Field, site: str) -> float:
    """Everything of the site is dead; when the last of it was killed."""
    running = here.roll(site)
    here.kill_starter(site)
    for process in running:
        os.kill(process["pid"], signal.SIGKILL)
    return time.time()


def test_a_killed_site_is_told_within_ten_seconds(tmp_path: Path):
    with field(tmp_path, EXPERIMENT, light=True) as here:
        held = here.hold("south", "rollout.started", 1)
        here.start_server("--page", "127.0.0.1:0")
        # A site that is there before the server first looks is never missing.
        missing, log = "waiting for 2 of 2 sites: north, south", tmp_path / "server.log"
        here.wait(START_SECONDS, until=lambda: missing in log.read_text())
        for site in here.sites:
            here.start_site(site)
        here.wait(START_SECONDS, until=held)
        here.wait(60, until=lambda: now_of(here, "south")["doing"] == "working")
        # Longer than silence may be: a site at work is heard.
        ends = time.monotonic() + 15
        while time.monotonic() < ends:
            assert now_of(here, "south")["doing"] == "working", now_of(here, "south")
            time.sleep(0.5)
        here.wait(START_SECONDS, until=lambda: now_of(here, "north")["doing"] == "sent")
        killed = kill_all(here, "south")
        here.wait(TOLD_SECONDS, until=lambda: now_of(here, "south")["doing"] == "silent")
        took = time.time() - killed
        last = now_of(here, "south")["since"]
        print(f"told {took:.1f} s after the kill, last heard {killed - last:.1f} s before it")
        assert took <= TOLD_SECONDS
        assert last <= killed
        report = command_status(here)
        assert report["waiting_for"] == ["south"]
        told = (tmp_path / "server.log").read_text()
        page = re.search(r"page of this federation: (http://\S+/)", told)
        assert page, told
        # On a busy machine a request that the site made before it was killed may be heard after it.
        here.wait(TOLD_SECONDS, until=lambda: shown_doing(page[1]) == ["sent", "silent"])
        assert missing in told
        assert "north is connected" in told
        said = (tmp_path / "north.log").read_text()
        port = here.federation.card.port
        for line in (f"connected to localhost:{port}", "round 1: playing 2 games", "round 1: sent"):
            assert line in said, said


def command_status(here: Field) -> dict[str, Any]:
    """What a coordinator's own `fedse federation status` says now."""
    where = ["--dir", str(here.federation.path), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "fedse", "federation", "status", *where],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
