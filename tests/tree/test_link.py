"""A tree over real sockets: toy workers below, two regions, and the coordinator above."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

from tests.needs import needs

needs("cryptography")

from fedse.aggregate.regional import largest_sum
from fedse.config.schema import Config
from fedse.drivers.loop import federate_by
from fedse.drivers.run import run_local
from fedse.faults import Fault
from fedse.ledger.keys import PUBLIC, read_public
from fedse.site.listening import SocketAddress, listen
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.tree.link import answer_size, ask_region, serve_region
from fedse.tree.region import Region
from fedse.tree.root import RegionLink, Regions
from fedse.tree.settings import regions_of
from fedse.tree.worker_sockets import WorkerSockets
from tests.toys.serving import toy_workers

SPEC = toy_spec()
SIZE = answer_size(3, largest_sum(SPEC))
WHERE = {"a": "north", "b": "south", "c": "north", "d": "south"}


def toy_tree() -> Config:
    world = "fedse.testing:CoinWorld"
    clients = [{"name": n, "env": world, "region": region} for n, region in WHERE.items()]
    return Config.model_validate(
        {
            "run": {"name": "toy", "rounds": 2},
            "rollout": {"episodes": 6},
            "eval": {"episodes": 4},
            "aggregate": {"sum": "exact", "deadline": 60},
            "clients": clients,
        }
    )


@contextmanager
def served(name: str, config: Config, sockets: Path, home: Path) -> Iterator[Path]:
    """A region in a thread of this test, at the socket that is given."""
    path = sockets / f"{name}.region.sock"
    below = {client: sockets / f"{client}.sock" for client in regions_of(config)[name]}
    ask = WorkerSockets(config, SPEC, below)
    region = Region(name, config, SPEC, ask, home, clock=time.time)
    listener = listen(SocketAddress(path))
    thread = threading.Thread(target=serve_region, args=(listener, region))
    thread.start()
    try:
        yield path
    finally:
        listener._listener._socket.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        listener.close()


def test_a_tree_over_sockets_gives_the_digests_of_one_coordinator(tmp_path: Path, sockets: Path):
    config = toy_tree()
    with closing(Run(tmp_path / "flat", config, SPEC, clock=time.time)) as run:
        run_local(run, open_site=open_toy_site)
        expected = [(result.after, result.voters) for result in run.results()]
        evals = run.evals(2)
    with ExitStack() as stack:
        for client in WHERE:
            start = stack.enter_context(toy_workers(tmp_path, sockets / f"{client}.sock"))
            start(config, client)
        links = []
        for name, members in regions_of(config).items():
            path = stack.enter_context(served(name, config, sockets, tmp_path / name))
            ask = partial(ask_region, path, size=SIZE, timeout=60)
            key = read_public(tmp_path / name / PUBLIC)
            links.append(RegionLink(name, members, key, ask))
        run = stack.enter_context(closing(Run(tmp_path / "tree", config, SPEC, clock=time.time)))
        regions = Regions(run, links, clock=time.time)
        federate_by(regions.gather, run, regions, clock=time.time)
        assert [(result.after, result.voters) for result in run.results()] == expected
        measured = {name: stats.eval_succeeded for name, stats in run.evals(2).items()}
    assert measured == {name: stats.eval_succeeded for name, stats in evals.items()}
    assert len({digest for digest, _ in expected}) == 2


def test_a_region_outlives_what_is_no_question(tmp_path: Path, sockets: Path):
    config = toy_tree()
    with served("north", config, sockets, tmp_path / "north") as path:
        for frame in (b"", b"\xff", b"{}", b"[1]", b'{"region": "north"}'):
            with closing(Client(str(path), family="AF_UNIX")) as connection:
                connection.send_bytes(frame)
                connection.send_bytes(b"")
                answer = json.loads(connection.recv_bytes())
                assert connection.recv_bytes() == b""
            assert answer == {"fault": Fault.REQUEST, "lines": [], "entry": None}
