"""A tree of real processes on this machine: a worker per site, a region above some of them each.

This process is the coordinator above. It is what several machines would run, minus the machines:
between them there are local sockets, so this proves the arithmetic, the signatures and the crashes,
and not a network.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedse.aggregate.regional import largest_sum
from fedse.drivers.loop import federate_by
from fedse.ledger.keys import PUBLIC, read_public
from fedse.processes.group import Processes
from fedse.site.socket_client import ask_until_served
from fedse.store.run import Run
from fedse.tree.link import answer_size, ask_region
from fedse.tree.messages import RegionAsk, RegionReply
from fedse.tree.root import RegionLink, Regions
from fedse.tree.settings import regions_of, require_composable
from fedse.tree.worker_sockets import PATIENCE, TRIES
from fedse.types import Adapter, Clock

START_SECONDS = 300.0


class PlantedTree(NamedTuple):
    """All that runs below the coordinator."""

    links: list[RegionLink]
    processes: Processes
    sockets: Path


def run_tree(run: Run, folder: Path, *, clock: Clock = time.time) -> Adapter:
    """All rounds of the run are committed, through its regions; the final global adapter."""
    with planted(run, folder) as below:
        regions = Regions(run, below.links, clock=clock)
        return federate_by(regions.gather, run, regions, clock=clock)


@contextmanager
def planted(run: Run, folder: Path, *, worker: str = "fedse.site.worker") -> Iterator[PlantedTree]:
    """Sites and regions of the run wait for questions; nothing of it runs afterwards.

    `worker` is the module whose process is a site.
    """
    require_composable(run.config)
    regions = regions_of(run.config)
    run_dir, folder = run.path.resolve(), folder.resolve()
    config = run_dir / "config.resolved.toml"
    with (
        TemporaryDirectory(prefix="fedse-") as sockets,
        Processes(folder / "logs", _environment()) as processes,
    ):
        desk = Path(sockets)
        for client in (client for members in regions.values() for client in members):
            where = _where(client, desk, folder / "sites" / client)
            start = [sys.executable, "-P", "-m", worker, str(config), *where]
            processes.start(f"worker-{client}", start)
        for region, members in regions.items():
            for client in members:
                ready = (desk / f"{client}.sock").exists
                processes.wait_for(f"worker of {client}", ready, seconds=START_SECONDS)
            start = region_command(config, region, desk, folder / "regions" / region)
            processes.start(f"region-{region}", start)
        for region in regions:
            ready = _socket_of(desk, region).exists
            processes.wait_for(f"region {region}", ready, seconds=START_SECONDS)
        yield PlantedTree(_links(run, regions, desk, folder), processes, desk)


def region_command(config: Path, region: str, sockets: Path, home: Path) -> list[str]:
    """Starts the process of one region."""
    module = [sys.executable, "-P", "-m", "fedse.tree.process", str(config), "--region", region]
    socket = _socket_of(sockets, region)
    return [*module, "--sites", str(sockets), "--socket", str(socket), "--home", str(home)]


def _socket_of(sockets: Path, region: str) -> Path:
    # No client can be called so: a name has no dot.
    return sockets / f"{region}.region.sock"


def _links(
    run: Run, regions: Mapping[str, tuple[str, ...]], sockets: Path, folder: Path
) -> list[RegionLink]:
    most, timeout = largest_sum(run.spec), 2 * run.config.aggregate.deadline
    links = []
    for region, members in regions.items():
        key = read_public(folder / "regions" / region / PUBLIC)
        ask = partial(
            ask_region,
            _socket_of(sockets, region),
            size=answer_size(len(members), most),
            timeout=timeout,
        )
        links.append(RegionLink(region, members, key, partial(_patiently, ask)))
    return links


def _patiently(ask: "partial[RegionReply]", asked: RegionAsk, data: bytes) -> RegionReply:
    """A region that died or is starting is asked again for a while."""
    return ask_until_served(partial(ask, asked, data), patience=PATIENCE, tries=TRIES)


def _where(client: str, sockets: Path, home: Path) -> list[str]:
    socket = ["--socket", str(sockets / f"{client}.sock")]
    return ["--client", client, *socket, "--home", str(home), "--modules", os.getcwd()]


def _environment() -> dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
