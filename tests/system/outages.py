"""What a federation must outlive besides its own code: Flower, nginx, the disk, whole machines.

Each strikes one round of a real federation, when its sites are at work.
"""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.system.field import Field
from tests.system.kills import Happening, Matrix, said

# Flower forgives a SuperLink that is away for less than a minute.
LONG_SECONDS = 65.0
# Flower's own patience with a locked database is 5 s.
LOCKED_SECONDS = 9.0
ROUND_SECONDS = 300.0
# Until an app that is started again runs.
APP_SECONDS = 60.0


class Outage(NamedTuple):
    name: str
    lasted: float
    """Seconds from the strike until everything that could be was as before."""
    committed: float
    """Seconds from then on until the round was committed."""


def kill_app(here: Field) -> None:
    """The server's app is dead; Flower is not told."""
    os.kill(app_of(here), signal.SIGKILL)


def app_of(here: Field) -> int:
    """The process of the server's app, which may just be started again."""
    apps: list[int] = []

    def runs() -> bool:
        apps.extend(running_apps(here))
        return bool(apps)

    here.wait(APP_SECONDS, until=runs)
    return apps[0]


def running_apps(here: Field) -> Iterator[int]:
    superexecs = [p["pid"] for p in here.roll("server") if p["name"] == "superexec"]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            group = os.getpgid(int(entry.name))
        except (OSError, ProcessLookupError):
            continue
        if group in superexecs and b"flwr-serverapp" in line:
            yield int(entry.name)


def lock_database(here: Field) -> None:
    with closing(
        sqlite3.connect(here.federation.path / "superlink.db", isolation_level=None)
    ) as db:
        db.execute("BEGIN EXCLUSIVE")
        time.sleep(LOCKED_SECONDS)
        db.execute("ROLLBACK")


def kill_both(here: Field) -> None:
    kill_app(here)
    here.kill("server", "superlink")


def kill_superlink_for_long(here: Field) -> None:
    """Nobody starts it again meanwhile, and the app waits for it in vain."""
    here.kill_starter("server")
    here.kill("server", "superlink")
    time.sleep(LONG_SECONDS)
    here.start_server()


def kill_server_for_long(here: Field) -> None:
    """All of the server's processes at once, as when its machine loses power."""
    here.kill_starter("server")
    for process in here.roll("server"):
        os.killpg(process["pid"], signal.SIGKILL)
    time.sleep(LONG_SECONDS)
    here.start_server()


def kill_starter(here: Field) -> None:
    """What it had started runs on; the next one ends that and begins anew."""
    here.kill_starter("server")
    here.start_server()


def kill_site(here: Field) -> None:
    """All of a site's processes at once, started again as its service manager would."""
    here.kill_starter("gamma")
    for process in here.roll("gamma"):
        os.killpg(process["pid"], signal.SIGKILL)
    here.start_site("gamma")


OUTAGES: dict[str, Callable[[Field], object]] = {
    "SuperLink killed": lambda here: here.kill("server", "superlink"),
    "SuperExec killed": lambda here: here.kill("server", "superexec"),
    "app killed": kill_app,
    "app and SuperLink killed": kill_both,
    "proxy killed": lambda here: here.kill("server", "nginx"),
    "database locked for 9 s": lock_database,
    "`federation start` killed": kill_starter,
    "SuperNode killed": lambda here: here.kill("alpha", "node"),
    "worker killed": lambda here: here.kill("beta", "worker"),
    "site killed": kill_site,
    "SuperLink away for 65 s": kill_superlink_for_long,
    "server away for 65 s": kill_server_for_long,
}


def struck(name: str, record: list[Outage]) -> Happening:
    """The outage strikes while the sites work; what it cost is added to `record`."""

    def strike(here: Field, round: int) -> None:
        # One site waits in the middle of its work, so the round cannot be over.
        assert not said(here, "round.committed", round), "over before it was disturbed"
        began = time.monotonic()
        here.let_go()
        OUTAGES[name](here)
        over = time.monotonic()
        here.wait(ROUND_SECONDS, until=lambda: said(here, "round.committed", round))
        record.append(Outage(name, over - began, time.monotonic() - over))

    return strike


def told(outages: Sequence[Outage], matrix: Matrix) -> str:
    """For a file: every outage and what it cost, and what the folders say afterwards."""
    costs = [
        {"name": o.name, "lasted": round(o.lasted, 1), "committed": round(o.committed, 1)}
        for o in outages
    ]
    rest = {name: value for name, value in matrix._asdict().items() if name != "kills"}
    return json.dumps({"outages": costs, **rest}, indent=1) + "\n"
