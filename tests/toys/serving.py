"""A worker of toy sites in a thread of the test."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Listener
from pathlib import Path

from fedse.config.schema import Config
from fedse.method.site import Site
from fedse.site.callers import Callers
from fedse.site.listening import SocketAddress, listen
from fedse.site.served import ServedSites
from fedse.site.worker import serve_forever
from fedse.testing import open_toy_site
from tests.toys.federation import ServeToy


@contextmanager
def toy_workers(homes: Path, path: Path) -> Iterator[ServeToy]:
    """What starts a worker at the socket `path`; all that were started have ended on leaving."""
    running: list[tuple[Listener, threading.Thread]] = []

    def start(
        config: Config,
        *clients: str,
        opened: Callable[[Site], Site] = lambda site: site,
        callers: Callers | None = None,
    ) -> Path:
        def open_one(name: str) -> Site:
            return opened(open_toy_site(config, name, homes / name, clock=time.time))

        sites, listener = ServedSites(config, clients, open_one), listen(SocketAddress(path))
        thread = threading.Thread(target=serve_forever, args=(listener, sites, None, callers))
        thread.start()
        running.append((listener, thread))
        return path

    yield start
    for listener, thread in running:
        # Closing alone does not wake a thread that waits for a connection.
        listener._listener._socket.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        listener.close()
        assert not thread.is_alive()
