"""Whether a run is alive, and a small HTTP server for pages about it."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from fedse.errors import FedSEError
from fedse.events import Fact
from fedse.types import Clock

ENDED_BADLY = ("run.failed", "run.interrupted")
QUIET = ("run.finished", "run.stopped", "round.waiting")
"""After these, no event may come for any time: the run is over, or waits for its next round."""
JSON = ("Content-Type", "application/json")

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Sites = Callable[[], object]
"""What each site of a federation is doing, as JSON."""


class Health(NamedTuple):
    well: bool
    state: str
    round: int
    silent_seconds: float


class Watch:
    """The state after the events so far; an observer of a run, read from another thread."""

    def __init__(self, *, clock: Clock, patience: float) -> None:
        self._clock, self._patience = clock, patience
        self._lock = threading.Lock()
        self._last, self._state, self._round = clock(), "starting", 0

    def __call__(self, event: str, entry: dict[str, Fact]) -> None:
        with self._lock:
            self._last, self._state = self._clock(), event
            if event in ("round.started", "round.committed"):
                self._round = int(entry["round"] or 0)

    def health(self) -> Health:
        """Unhealthy after a failure, or after `patience` seconds without an event."""
        with self._lock:
            silent = self._clock() - self._last
            quiet = self._state in QUIET
            well = self._state not in ENDED_BADLY and (quiet or silent <= self._patience)
            return Health(well, self._state, self._round, round(silent, 1))


def health_app(watch: Watch, sites: Sites | None = None) -> WsgiApp:
    """Answers 200 while the run is running or finished, else 503; includes the sites, if given."""

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        health = watch.health()
        start("200 OK" if health.well else "503 Service Unavailable", [JSON])
        return [json.dumps({**health._asdict(), **_known(sites)}).encode()]

    return app


def _known(sites: Sites | None) -> dict[str, object]:
    """A damaged file of a site does not make the run unhealthy."""
    try:
        return {"sites": sites()} if sites else {}
    except FedSEError:
        return {"sites": None}


class _ThreadedServer(ThreadingMixIn, WSGIServer):
    """One thread per connection, because browsers keep unused connections open."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: a client that sends nothing or hangs up is not a fault of the run."""


class _QuietHandler(WSGIRequestHandler):
    # Seconds for which a connection may be idle.
    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: requests come every few seconds."""


@contextmanager
def served(host: str, port: int, app: WsgiApp) -> Iterator[int]:
    """`app` answers on this address; yields the port, which for 0 is any free one."""
    server = make_server(host, port, app, server_class=_ThreadedServer, handler_class=_QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
