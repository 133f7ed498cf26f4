"""A site comes back by itself: a real SuperLink, nginx, SuperNode and worker, and what hits them.

What the server believes is read from the SuperLink's own database.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.federation import folder
from fedse.federation.folder import Card, Federation
from fedse.federation.home import Home, agreed_config, join
from fedse.federation.invite import read_invite
from fedse.federation.rotation import read_either
from fedse.flower.ops.serve_federation import serving
from fedse.flower.patches.presence import read_presence
from fedse.ports import free_ports
from tests.system.field import LIGHT, SWITCHED

# More than a SuperNode sleeps (3 s) and the SuperLink waits for a lock (5 s).
LOCKED_SECONDS = 9.0
# Half of what a server refuses a node for that it believes online. Where others share the cores, to
# be back must not take longer than to begin from nothing.
BACK_SECONDS = 30.0
# Only ends what hangs.
START_SECONDS = 600.0


def federation_of_one(path: Path) -> tuple[Federation, Home]:
    clients = [{"name": "alpha", "env": "maze"}]
    config = Config.model_validate({"run": {"name": "clinics", "rounds": 1}, "clients": clients})
    port, link = free_ports(2)
    card = Card(
        name="clinics", host="localhost", port=port, link_port=link, bundle="b", fingerprint=""
    )
    now = datetime.now(UTC)
    made = folder.create(
        path / "fed", config, given=dump_config(config), card=card, now=now, clock=time.time
    )
    file = folder.invite(made, "alpha", nonce="alpha" * 4, now=int(time.time()), hours=1)
    offered = read_invite(file, trusted=made.card.fingerprint, now=time.time())
    home = join(
        offered,
        agreed_config(offered, env="maze", options={}, base=None),
        path / "home",
        bundle="b",
    )
    folder.enrol(made, read_either(home.path / "enrolment.json"), now=time.time())
    return made, home


def pass_500_on(federation: Federation) -> None:
    """As a proxy of the coordinator's own may: with ours, a node does not hear of a 500."""
    file = federation.path / "nginx.conf"
    lines = [line for line in file.read_text().splitlines() if "error_page 500" not in line]
    file.write_text("\n".join(lines))


@contextmanager
def site_started(home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "fedse", "site", "start", "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": SWITCHED, **LIGHT}
    with (home / "told").open("ab") as told:
        site = subprocess.Popen(command, stderr=told, env=environment)
    try:
        yield site
    finally:
        site.send_signal(signal.SIGTERM)
        site.wait(90)


def activated(federation: Federation) -> str:
    """When the node came online; empty = it is not."""
    database = f"file:{federation.path / 'superlink.db'}?mode=ro"
    with closing(sqlite3.connect(database, uri=True, timeout=20)) as db:
        row = db.execute("SELECT status, last_activated_at FROM node").fetchone()
    return str(row[1]) if row and row[0] == "online" else ""


def running(home: Path) -> dict[str, int]:
    """Process numbers of the site's worker and node."""
    rolls = [json.loads(file.read_text()) for file in (home / "logs").glob("running-*.json")]
    return {each["name"]: each["pid"] for roll in rolls for each in roll["running"]}


def connections(home: Path) -> int:
    """How often the site has said that it is connected."""
    return (home / "told").read_text().count("connected to ")


def seconds_until(done: Callable[[], bool], what: str, *, at_most: float) -> float:
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < at_most, f"{what}: not in {at_most:.0f} s"
        time.sleep(0.1)
    print(f"{what}: {time.monotonic() - began:.1f} s", file=sys.__stderr__)
    return time.monotonic() - began


def listening(home: Path) -> Callable[[], bool]:
    """A worker that is not one of the present ones says it is ready."""
    before = set((home / "logs").glob("worker*.log"))
    logs = (home / "logs").glob

    def ready() -> bool:
        return any("ready" in log.read_text() for log in set(logs("worker*.log")) - before)

    return ready


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_site_comes_back_without_anybodys_help(tmp_path: Path):
    federation, home = federation_of_one(tmp_path)
    pass_500_on(federation)
    with serving(federation, proxy=True), site_started(home.path) as site:
        online = partial(seconds_until, lambda: bool(activated(federation)))
        first = online("online at first", at_most=START_SECONDS)
        until = partial(seconds_until, at_most=max(BACK_SECONDS, first))

        before = activated(federation)
        with closing(sqlite3.connect(federation.path / "superlink.db", isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            time.sleep(LOCKED_SECONDS)
            log = home.path / "logs" / "node.log"
            until(lambda: "500 Internal" in log.read_text(), "the node noticed, after 9 s +")
            db.execute("ROLLBACK")
        until(lambda: activated(federation) > before, "online after a locked database")

        before = activated(federation)
        os.kill(running(home.path)["node"], signal.SIGKILL)
        until(lambda: activated(federation) > before, "online after kill -9 of the node")

        ready = listening(home.path)
        os.kill(running(home.path)["worker"], signal.SIGKILL)
        seconds_until(ready, "a worker after kill -9 of it", at_most=START_SECONDS)

        before, orphans = activated(federation), running(home.path)
        site.kill()
        site.wait()
        earlier = connections(home.path)
        with site_started(home.path):
            seconds_until(
                lambda: activated(federation) > before,
                "online after kill -9 of fedse site start",
                at_most=START_SECONDS,
            )
            # The server knows of a node a moment before the node, which cannot leave until then.
            until(lambda: connections(home.path) > earlier, "the site says so")
            assert not set(orphans.values()) & set(running(home.path).values())
        assert activated(federation) == "", "SIGTERM: it said goodbye"
        left = read_presence(home.path / "node.id")
        assert left is not None
        assert not left.online
        assert running(home.path) == {}
    (ended,) = [line for line in (home.path / "told").read_text().splitlines() if "earlier" in line]
    assert {"worker", "node"} <= set(ended.replace(",", "").split())
