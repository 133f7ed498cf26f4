"""A site takes part: its worker and a SuperNode run until they are stopped.

The SuperNode speaks TLS, believes the federation's own authority only and proves itself with the
site's key; there is no way to start it without. It unpacks the agreed app bundle only. One that
ended is started again, and so is the worker; no other process uses the same home meanwhile.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.engine.server import engine_if_needed
from fedse.federation.home import Home
from fedse.flower.ops.commands import environment, guarded_environment
from fedse.flower.ops.deployment import SitePlace, node_command, worker_command
from fedse.flower.ops.superlink import START_SECONDS
from fedse.flower.patches.bundle_guard import write_launchers
from fedse.ports import free_ports
from fedse.processes.group import Processes, Started
from fedse.processes.restart import RestartingProcess, Tell
from fedse.store.lock import locked

LOOK_SECONDS = 0.5
LIKELY = " (is the server down, or is this site not enrolled yet?)"


def serve_site(home: Home, *, tell: Tell, seconds: float | None = None) -> None:
    """Takes part until interrupted, or for `seconds`; nothing of it runs afterwards."""
    again = f"fedse site start --home {home.path}"
    busy = f"another `fedse site start` takes part with the home {home.path}"
    with (
        locked(home.path, busy=busy, hint=f"stop that one (Ctrl-C, or its service), then: {again}"),
        # Before the worker's environment is made: it tells where the engine is.
        engine_if_needed(home.config, home.path / "engine", tell=tell),
        TemporaryDirectory(prefix="fedse-") as sockets,
        Processes(home.path / "logs", worker_environment(home)) as processes,
    ):
        if left := processes.end_orphans():
            tell(f"ended what an earlier start had left running: {', '.join(left)}")
        socket = Path(sockets) / "site.sock"
        start_worker, start_node = starts(home, socket, processes)
        hint = f"fix what it says, then: {again}"
        worker = RestartingProcess(
            processes, start_worker, tell=tell, ready=socket.exists, hint=hint
        )
        worker.look(time.monotonic())
        processes.wait_for("worker", socket.exists, seconds=START_SECONDS)
        tell(f"worker ready; {home.card.site} connects to {home.card.server}")
        node = RestartingProcess(processes, start_node, tell=tell, likely=LIKELY)
        keep_running([worker, node], seconds)


def keep_running(all_kept: Sequence[RestartingProcess], seconds: float | None) -> None:
    """They run, each started again when it ended, for `seconds` or until an interrupt."""
    ends = None if seconds is None else time.monotonic() + seconds
    while ends is None or time.monotonic() < ends:
        for kept in all_kept:
            kept.look(time.monotonic())
        time.sleep(LOOK_SECONDS)


def starts(
    home: Home, socket: Path, processes: Processes
) -> tuple[Callable[[], Started], Callable[[], Started]]:
    """How the worker and how the node of a site are started, and started again."""

    def start_worker() -> Started:
        # One that was killed leaves its socket; from here on a socket means a worker is ready.
        socket.unlink(missing_ok=True)
        desk = SitePlace(home.card.site, home.path, socket, 0)
        command = worker_command(home.path / "experiment.toml", desk)
        own = ["--policy", str(home.policy), "--own-settings", str(home.path / "site.toml")]
        return processes.start("worker", [*command, *own])

    def start_node() -> Started:
        # A port of its own each time: somebody may have taken the one before.
        desk = SitePlace(home.card.site, home.path, socket, free_ports(1)[0])
        command = node_command(desk, home.card.server, home.authority, home.key)
        return processes.start("node", command, env=node_environment(home, home.path / "flower"))

    return start_worker, start_node


def worker_environment(home: Home) -> dict[str, str]:
    """Modules in the current folder can be imported, last, as everywhere in fedse."""
    env = environment(home.path / "flower")
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], os.getcwd()])
    return env


def node_environment(home: Home, flower: Path) -> dict[str, str]:
    """Of the site's SuperNode, which unpacks the bundle the site agreed to and no other."""
    return guarded_environment(flower, write_launchers(home.path / "bin", home.card.bundle))
