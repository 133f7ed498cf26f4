"""A deployment or simulation of Flower's own programs, with the keys and the options of ours."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import tomlkit

from fedse.federation.keys import Identity, make_identity, make_node_key
from fedse.flower.ops.commands import command, environment, healthy
from fedse.flower.ops.deployment import SitePlace, node_arguments, register
from fedse.flower.ops.simulation import simulating_processes
from fedse.flower.ops.superlink import (
    CONNECTION,
    START_SECONDS,
    superexec_command,
    superlink_arguments,
    write_connection,
)
from fedse.ports import free_ports
from fedse.processes.group import Processes
from research.bench.bare_app import write_bare_app


@contextmanager
def bare_deployment(folder: Path, nodes: int) -> Iterator[Processes]:
    """A SuperLink and its SuperNodes wait for an app; nothing of it runs afterwards."""
    folder.mkdir(parents=True, mode=0o700)
    identity = make_identity(folder / "keys")
    port, *node_ports = free_ports(1 + nodes)
    address, flower_home = f"127.0.0.1:{port}", folder / "flower"
    write_connection(flower_home, address, identity.ca)
    options = ["--enable-supernode-auth", "--database", str(folder / "superlink.db")]
    places = [
        SitePlace(f"node-{own}", folder / f"node-{own}", folder / "unused.sock", own)
        for own in node_ports
    ]
    with Processes(folder / "logs", environment(flower_home)) as processes:
        _start_superlink(processes, address, options, identity)
        keys = {place.client: make_node_key(place.home) for place in places}
        register(processes, keys)
        for place in places:
            arguments = node_arguments(place, address, identity.ca, keys[place.client])
            processes.start(
                place.client,
                [command("flower-supernode"), *arguments],
                env=environment(place.home / "flower"),
            )
        yield processes


@contextmanager
def bare_simulation(folder: Path) -> Iterator[Processes]:
    """A SuperLink waits for an app and the number of its virtual nodes; none runs afterwards."""
    with simulating_processes(folder) as (processes, address):
        _start_superlink(processes, address, ["--simulation"], None)
        yield processes


def _start_superlink(
    processes: Processes, address: str, options: Sequence[str], identity: Identity | None
) -> None:
    """Flower's own SuperLink answers at `address`, and a SuperExec waits to run the app."""
    arguments = superlink_arguments(address, options, identity)
    processes.start("superlink", [command("flower-superlink"), *arguments])
    answers = partial(healthy, address, identity.ca if identity else None)
    processes.wait_for("superlink", answers, seconds=START_SECONDS)
    processes.start("superexec", superexec_command(address, identity))


def submit_bare(
    folder: Path, settings: Mapping[str, str | float], options: Sequence[str] = ()
) -> list[str]:
    """Submits the bare app with these settings and follows its log."""
    app, chosen = write_bare_app(folder / "app"), folder / "run-config.toml"
    chosen.write_text(tomlkit.dumps(dict(settings)), encoding="utf-8")
    run = [command("flwr"), "run", str(app), CONNECTION, "--run-config", str(chosen)]
    return [*run, "--stream", *options]
