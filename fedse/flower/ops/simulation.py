"""Driver: the same apps on Flower's simulation, many virtual nodes on one machine.

The SuperLink is started here like any other process instead of by `flwr run`, whose own one stays
in the background after the run. The Python entry of Flower's simulation is deprecated and cannot
carry a run config, so the documented command is used. All clients share a few workers
(`run.workers`), because one process per client would not carry hundreds of them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.drivers.stages import introduce
from fedse.flower.ops.commands import environment
from fedse.flower.ops.superlink import (
    START_SECONDS,
    final_digest,
    run_seconds,
    start_superlink,
    submit,
    write_connection,
)
from fedse.ports import free_ports
from fedse.processes.group import Processes


class Simulation(NamedTuple):
    """A SuperLink and the workers of all clients wait for the app."""

    processes: Processes
    folder: Path
    config: Config
    settings: dict[str, str | float]
    """What the app is to be submitted with."""


def run_simulation(run_dir: Path, folder: Path) -> str:
    """All rounds of the run are committed; digest of the final adapter. Nothing runs afterwards.

    Clients keep their things in RUN/clients, as with the local driver; logs are in `folder`.
    """
    with simulated(run_dir, folder) as ready:
        log = submit(
            ready.processes,
            ready.folder,
            ready.settings,
            options=simulation_options(len(ready.config.clients)),
            seconds=run_seconds(ready.config),
        )
    return final_digest(run_dir, log)


def simulation_options(nodes: int) -> list[str]:
    """What `flwr run` is told about the virtual nodes."""
    # A virtual node only passes bytes on, so it needs little; its worker does the work.
    settings = f"num-supernodes={nodes} client-resources-num-cpus=1"
    return ["--federation-config", settings]


@contextmanager
def simulated(run_dir: Path, folder: Path) -> Iterator[Simulation]:
    """Everything but the app is ready; nothing of it runs afterwards."""
    run_dir, folder = run_dir.resolve(), folder.resolve()
    config = load_config(run_dir / "config.resolved.toml")
    introduce(config, run_dir, {name: run_dir / "clients" / name for name in config.members})
    with (
        TemporaryDirectory(prefix="fedse-") as sockets,
        simulating_processes(folder) as (processes, address),
    ):
        _start_workers(processes, run_dir, config, Path(sockets))
        start_superlink(processes, address, ["--simulation"], None)
        _wait_for_workers(processes, config, Path(sockets))
        yield Simulation(processes, folder, config, {"run-dir": str(run_dir), "sites": sockets})


@contextmanager
def simulating_processes(folder: Path) -> Iterator[tuple[Processes, str]]:
    """A group for what a simulation starts, none yet, and the address its SuperLink is to have."""
    address, flower_home = f"127.0.0.1:{free_ports(1)[0]}", folder / "flower"
    write_connection(flower_home, address, None)
    with (
        TemporaryDirectory(prefix="fedse-ray-") as ray,
        Processes(folder / "logs", {**environment(flower_home), "RAY_TMPDIR": ray}) as processes,
    ):
        yield processes, address


def _start_workers(processes: Processes, run_dir: Path, config: Config, sockets: Path) -> None:
    """Every client is served; PLACE.sock leads to the worker that serves it."""
    names = sorted(client.name for client in config.clients)
    count = min(config.run.workers, len(names))
    for number in range(count):
        share = names[number::count]
        socket = sockets / f"worker-{number}.sock"
        for name in share:
            (sockets / f"{names.index(name)}.sock").symlink_to(socket)
        # One client alone would be the owner of the whole home.
        home = run_dir / "clients" / (share[0] if len(share) == 1 else "")
        where = ["--socket", str(socket), "--home", str(home)]
        clients = [part for name in share for part in ("--client", name)]
        module = [sys.executable, "-P", "-m", "fedse.site.worker"]
        config_file = str(run_dir / "config.resolved.toml")
        modules = ["--modules", os.getcwd()]
        processes.start(f"worker-{number}", [*module, config_file, *clients, *where, *modules])


def _wait_for_workers(processes: Processes, config: Config, sockets: Path) -> None:
    def ready() -> bool:
        return all((sockets / f"{i}.sock").exists() for i in range(len(config.clients)))

    processes.wait_for("workers", ready, seconds=START_SECONDS)
