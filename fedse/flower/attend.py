"""A site takes part: its worker and a SuperNode run until they are told to stop.

The SuperNode speaks TLS, believes the federation's own authority only and proves itself with the
site's key; there is no way to start it without. It unpacks the agreed app bundle only.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.federation.home import Home
from fedse.flower.admit import write_launchers
from fedse.flower.deploy import Desk, node_command, worker_command
from fedse.flower.processes import Processes, Started, environment, free_ports
from fedse.flower.superlink import START_SECONDS

# A SuperLink refuses a node it does not know yet, and for a minute one that fell silent.
RESTART_SECONDS = 20.0
LOOK_SECONDS = 1.0

Tell = Callable[[str], None]


def attend(home: Home, *, tell: Tell, seconds: float | None = None) -> None:
    """Takes part until interrupted, or for `seconds`; nothing of it runs afterwards."""
    flower = home.path / "flower"
    with (
        TemporaryDirectory(prefix="fedse-") as sockets,
        Processes(home.path / "logs", worker_environment(home)) as processes,
    ):
        socket = Path(sockets) / "site.sock"
        desk = Desk(home.card.site, home.path, socket, free_ports(1)[0])
        worker = worker_command(home.path / "experiment.toml", desk)
        processes.start("worker", [*worker, "--policy", str(home.policy)])
        processes.wait_for("worker", socket.exists, seconds=START_SECONDS)
        tell(f"worker ready; {home.card.site} calls {home.card.server}")
        ends = None if seconds is None else time.monotonic() + seconds

        def start_node() -> Started:
            node = node_command(desk, home.card.server, home.authority, home.key)
            return processes.start("node", node, env=node_environment(home, flower))

        _keep(processes, start_node, ends, tell)


def _keep(
    processes: Processes, start_node: Callable[[], Started], ends: float | None, tell: Tell
) -> None:
    """The node runs; one that ended is started again, until `ends` or an interrupt."""
    node, again = start_node(), 0.0
    while ends is None or time.monotonic() < ends:
        time.sleep(LOOK_SECONDS)
        if node.process.poll() is not None and not again:
            processes.running.remove(node)
            again = time.monotonic() + RESTART_SECONDS
            tell(
                f"the server is away or refused this node (not enrolled yet?): {node.log}; "
                f"tried again in {RESTART_SECONDS:.0f} s"
            )
        processes.require_alive()
        if again and time.monotonic() >= again:
            node, again = start_node(), 0.0


def worker_environment(home: Home) -> dict[str, str]:
    """Modules in the current folder can be imported, last, as everywhere in fedse."""
    env = environment(home.path / "flower")
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], os.getcwd()])
    return env


def node_environment(home: Home, flower: Path) -> dict[str, str]:
    """Flower finds our guard of the app bundle before its own program."""
    env = environment(flower)
    guard = write_launchers(home.path / "bin", home.card.bundle)
    env["PATH"] = os.pathsep.join([str(guard), env["PATH"]])
    return env
