"""What the federated tests share: the path of their worlds, a worker in a thread, Flower's task."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Listener
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# Test modules, and the processes they start, import canary_world and toy_federation by name.
HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])

from toy_federation import SPEC, ServeToy

from fedse.config.schema import Config
from fedse.method.site import Site
from fedse.site.listening import SocketAddress, listen
from fedse.site.worker import ServedSites, serve_forever
from fedse.testing import open_toy_site, toy_adapter
from fedse.types import Adapter


@pytest.fixture
def task_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages only inside one of its tasks."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short path: the name of a local socket has 107 bytes at most."""
    with TemporaryDirectory(prefix="fedse-") as folder:
        yield Path(folder)


@pytest.fixture
def serve_toy(tmp_path: Path, sockets: Path) -> Iterator[ServeToy]:
    """Starts a worker of toy sites in a thread and gives its socket."""
    path = sockets / "own" / "worker.sock"
    running: list[tuple[Listener, threading.Thread]] = []

    def start(
        config: Config, *clients: str, opened: Callable[[Site], Site] = lambda site: site
    ) -> Path:
        def open_one(name: str) -> Site:
            return opened(open_toy_site(config, name, tmp_path / name, clock=time.time))

        sites, listener = ServedSites(config, clients, open_one), listen(SocketAddress(path))
        thread = threading.Thread(target=serve_forever, args=(listener, sites))
        thread.start()
        running.append((listener, thread))
        return path

    yield start
    for listener, thread in running:
        # Closing alone does not wake a thread that waits for a connection.
        listener._listener._socket.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture
def adapter() -> Adapter:
    return toy_adapter(SPEC, 1)
