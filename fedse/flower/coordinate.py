"""The server's side of a federation: SuperLink, SuperExec, proxy, and the sites it may know.

The SuperLink listens on the loopback address, with TLS and node authentication always on; the
proxy is what sites reach. Which keys the SuperLink knows follows from the enrolment list.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedse.config_file import load_config
from fedse.errors import MachineError, RunError
from fedse.federation.folder import Federation, nodes, write_nodes
from fedse.flower.processes import Processes, command, environment, healthy
from fedse.flower.superlink import (
    CONNECTION,
    START_SECONDS,
    final_digest,
    run_seconds,
    start_superlink,
    submit,
    write_connection,
)

PROXY_SECONDS = 10.0


@contextmanager
def serving(federation: Federation, *, proxy: bool) -> Iterator[Processes]:
    """The federation can be reached by its sites; nothing of it runs afterwards."""
    folder, address = federation.path, link_address(federation)
    nginx = shutil.which("nginx")
    if proxy and nginx is None:
        raise MachineError(
            "nginx is not installed here, and without it sites would reach the control routes",
            hint="apt-get install nginx-light; or run nginx elsewhere and give --no-proxy",
        )
    if healthy(address, federation.identity.ca):
        raise MachineError(
            f"a SuperLink of this federation already answers at {address}",
            hint="wait for it, or end it: ss -ltnp shows which process it is",
        )
    write_connection(folder / "flower", address, federation.identity.ca)
    database = folder / "superlink.db"
    if not database.exists():
        write_nodes(federation, {})
    with _processes(federation) as processes:
        options = ["--enable-supernode-auth", "--database", str(database)]
        start_superlink(processes, address, options, federation.identity)
        _introduce(federation, processes)
        if proxy and nginx:
            start_proxy(processes, federation, nginx)
        yield processes


def start_proxy(processes: Processes, federation: Federation, nginx: str) -> None:
    """nginx answers at the federation's port."""
    folder, card = federation
    place = ["-p", f"{folder}/", "-c", str(folder / "nginx.conf"), "-e", "logs/nginx-error.log"]
    started, pid = processes.start("nginx", [nginx, *place]), folder / "nginx.pid"

    def listens() -> bool:
        """nginx writes its id once it has its port; an earlier one may have left the file."""
        return pid.exists() and pid.read_text().strip() == str(started.process.pid)

    processes.wait_for(f"proxy at port {card.port}", listens, seconds=PROXY_SECONDS)


def run_federation(federation: Federation, processes: Processes, *, wait: float) -> str:
    """All rounds are committed; digest of the final adapter. Started again, it goes on."""
    config = load_config(federation.run / "config.resolved.toml")
    log = submit(
        processes,
        federation.path,
        {"run-dir": str(federation.run), "join-seconds": wait},
        seconds=run_seconds(config) + wait,
    )
    return final_digest(federation.run, log)


def introduce(federation: Federation) -> bool:
    """A SuperLink that runs knows exactly the enrolled sites; False = none runs now."""
    if not healthy(link_address(federation), federation.identity.ca):
        return False
    with _processes(federation) as processes:
        _introduce(federation, processes)
    return True


def link_address(federation: Federation) -> str:
    return f"127.0.0.1:{federation.card.link_port}"


def _processes(federation: Federation) -> Processes:
    return Processes(federation.path / "logs", environment(federation.path / "flower"))


def _introduce(federation: Federation, processes: Processes) -> None:
    """Each enrolled site is registered under its name; one that is no more is unregistered."""
    known, sites = nodes(federation), federation.sites.members
    enrolled = {name for name, site in sites.items() if site.state == "enrolled"}
    flwr = [command("flwr"), "supernode"]
    for site in sorted(set(known) - enrolled):
        leave = [*flwr, "unregister", str(known[site]), CONNECTION]
        processes.succeed({f"unregister-{site}": leave}, seconds=START_SECONDS)
        del known[site]
        write_nodes(federation, known)
    for site in sorted(enrolled - set(known)):
        key = federation.path / "sites" / f"{site}.pub"
        enter = [*flwr, "register", str(key), CONNECTION, "--name", site, "--format", "json"]
        (log,) = processes.succeed({f"register-{site}": enter}, seconds=START_SECONDS)
        known[site] = _node_id(log, site)
        write_nodes(federation, known)


def _node_id(log: Path, site: str) -> int:
    found = re.search(r'"node-id":\s*"?(\d+)', log.read_text(errors="replace"))
    if found is None:
        raise RunError(f"Flower did not say which node {site} became", hint=f"less {log}")
    return int(found[1])
