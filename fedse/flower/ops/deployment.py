"""A real deployment on the loopback address: own processes, TLS, authenticated nodes.

One SuperLink, one SuperExec that runs the server's app, and for every client a site worker and a
SuperNode with a key of its own. It is what several machines would run, minus the machines.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedse.config.file import load_config
from fedse.drivers.stages import introduce
from fedse.federation.keys import PRESENCE, NodeKey, make_identity, make_node_key
from fedse.federation.line import FILE as LINE
from fedse.flower.messages.bundle import own_digest
from fedse.flower.ops.commands import environment, guarded_environment
from fedse.flower.ops.registrar import registrar_command
from fedse.flower.ops.superlink import (
    CONNECTION,
    START_SECONDS,
    final_digest,
    run_seconds,
    start_superlink,
    submit,
    write_connection,
)
from fedse.flower.patches.bundle_guard import write_launchers
from fedse.ports import free_ports
from fedse.processes.group import Processes


class Deployment(NamedTuple):
    """Everything that runs, and where it keeps its things."""

    run_dir: Path
    folder: Path
    """Beside the run: keys, logs, the SuperLink's database, every site's own folder."""
    processes: Processes


class SitePlace(NamedTuple):
    """One client's place in the deployment."""

    client: str
    home: Path
    socket: Path
    port: int
    runtime: Path | None = None
    """The socket at which the SuperNode serves its app; None = at the port."""


@contextmanager
def deployed(run_dir: Path, folder: Path) -> Iterator[Deployment]:
    """A federation of all clients of the run waits for an app; nothing of it runs afterwards."""
    run_dir, folder = run_dir.resolve(), folder.resolve()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = load_config(run_dir / "config.resolved.toml")
    clients = [client.name for client in config.clients]
    identity = make_identity(folder / "keys")
    port, *node_ports = free_ports(1 + len(clients))
    address = f"127.0.0.1:{port}"
    write_connection(folder / "flower", address, identity.ca)
    with (
        TemporaryDirectory(prefix="fedse-") as sockets,
        Processes(folder / "logs", environment(folder / "flower")) as processes,
    ):
        desks = [
            SitePlace(
                client, folder / "sites" / client, Path(sockets) / f"{client}.sock", node_port
            )
            for client, node_port in zip(clients, node_ports, strict=True)
        ]
        introduce(config, run_dir, {desk.client: desk.home for desk in desks})
        for desk in desks:
            start = worker_command(run_dir / "config.resolved.toml", desk)
            processes.start(f"worker-{desk.client}", start)
        database = _fresh(folder / "superlink.db")
        options = ["--enable-supernode-auth", "--database", str(database)]
        start_superlink(processes, address, options, identity, run_dir)
        launchers = write_launchers(folder / "bin", own_digest())
        keys = {desk.client: make_node_key(desk.home) for desk in desks}
        register(processes, keys)
        for desk in desks:
            ready = desk.socket.exists
            processes.wait_for(f"worker of {desk.client}", ready, seconds=START_SECONDS)
            node = node_command(desk, address, identity.ca, keys[desk.client])
            # Nodes of one machine would else unpack the same app bundle into each other's folder.
            env = guarded_environment(desk.home / "flower", launchers)
            processes.start(f"node-{desk.client}", node, env=env)
        yield Deployment(run_dir, folder, processes)


def run_deployment(run_dir: Path, folder: Path) -> str:
    """All rounds of the run are committed by real processes; digest of the final adapter."""
    with deployed(run_dir, folder) as deployment:
        return run_app(deployment)


def run_app(deployment: Deployment) -> str:
    """The run is at its end; digest of the final adapter. Submitting again continues the run."""
    run_dir, folder, processes = deployment
    seconds = run_seconds(load_config(run_dir / "config.resolved.toml"))
    log = submit(processes, folder, {"run-dir": str(run_dir)}, seconds=seconds)
    return final_digest(run_dir, log)


def _fresh(database: Path) -> Path:
    """No file of an earlier deployment is left: a key that is registered cannot be again, and a
    node that was online a minute ago would be refused. What counts is in the run folder."""
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    return database


def worker_command(config: Path, desk: SitePlace) -> list[str]:
    """Starts the worker of one client, with its home and its socket.

    Modules in the current folder can be imported, last, as everywhere in fedse.
    """
    module = [sys.executable, "-P", "-m", "fedse.site.worker", str(config)]
    where = ["--client", desk.client, "--socket", str(desk.socket), "--home", str(desk.home)]
    return [*module, *where, "--modules", os.getcwd()]


def node_command(
    desk: SitePlace,
    superlink: str,
    ca: Path,
    key: NodeKey,
    *,
    presence: str = PRESENCE,
    many_sites: bool = False,
) -> list[str]:
    """Starts the SuperNode of one client; it believes `ca` alone and proves itself with `key`.

    It ends when it no longer works, and says goodbye for one before it that could not.
    """
    module = [sys.executable, "-P", "-m", "fedse.flower.ops.supernode"]
    ours = ["--presence", str(desk.home / presence), "--line", str(desk.home / LINE)]
    if many_sites:
        ours += ["--many-sites"]
    if desk.runtime:
        ours += ["--runtime-socket", str(desk.runtime)]
    return [*module, *ours, *node_arguments(desk, superlink, ca, key)]


def node_arguments(desk: SitePlace, superlink: str, ca: Path, key: NodeKey) -> list[str]:
    """What `flower-supernode`, or ours in its place, is started with."""
    link = ["--superlink", superlink, "--root-certificates", str(ca)]
    proof = ["--auth-supernode-private-key", str(key.private)]
    own = ["--host", "127.0.0.1", "--port", str(desk.port)]
    site = ["--node-config", f'site="{desk.socket}"']
    return [*link, *proof, *own, *site]


def register(processes: Processes, keys: dict[str, NodeKey]) -> None:
    """Each node may speak for the client it is registered as, and for no other."""
    line = registrar_command(CONNECTION, come={name: key.public for name, key in keys.items()})
    processes.succeed({"registrar": line}, seconds=START_SECONDS)
