"""Whether a run is alive, and how a few pages about it are served over HTTP on this machine."""

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
JSON = ("Content-Type", "application/json")

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Sites = Callable[[], object]
"""What each site of a federation does now, as JSON has it."""


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
        """Not well after a failure, or after `patience` seconds without any event."""
        with self._lock:
            silent = self._clock() - self._last
            over = self._state == "run.finished"
            well = self._state not in ENDED_BADLY and (over or silent <= self._patience)
            return Health(well, self._state, self._round, round(silent, 1))


def health_app(watch: Watch, sites: Sites | None = None) -> WsgiApp:
    """Answers 200 while the run goes on or has finished, else 503; with the sites, if given."""

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        health = watch.health()
        start("200 OK" if health.well else "503 Service Unavailable", [JSON])
        return [json.dumps({**health._asdict(), **_known(sites)}).encode()]

    return app


def _known(sites: Sites | None) -> dict[str, object]:
    """Whether a run is well does not depend on what its sites' files are like."""
    try:
        return {"sites": sites()} if sites else {}
    except FedSEError:
        return {"sites": None}


class _ThreadedServer(ThreadingMixIn, WSGIServer):
    """A browser keeps connections open that it has not used yet."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: a client that says nothing or hangs up is no fault of the run."""


class _QuietHandler(WSGIRequestHandler):
    # Seconds for which a connection may say nothing.
    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: somebody asks every few seconds."""


@contextmanager
def served(host: str, port: int, app: WsgiApp) -> Iterator[int]:
    """`app` answers on this address; the port taken, which for 0 is any that is free."""
    server = make_server(host, port, app, server_class=_ThreadedServer, handler_class=_QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
