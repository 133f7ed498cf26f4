"""A run's state for a monitoring system: Prometheus metrics, and whether it is alive.

Numbers under the names of clients, as the event log has them; no other text. /metrics is for
Prometheus, /health answers 200 while the run goes on or has finished and 503 after a failure, or
when nothing has happened for too long.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fedse.errors import MachineError, boundary
from fedse.events import Fact, Observer
from fedse.types import Clock

ENDED_BADLY = ("run.failed", "run.interrupted")


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


def metrics_observer(registry: Any) -> Observer:
    """Keeps the registry's metrics up to date with the events."""
    with boundary(MachineError, "prometheus-client"):
        from prometheus_client import Counter, Gauge
    names = {"registry": registry, "namespace": "fedse"}
    round_ = Gauge("round", "Last committed round", **names)
    seconds = Gauge("round_seconds", "Wall time of the last round", **names)
    members = Gauge("members", "Clients by what they did in the last round", ["did"], **names)
    sent = Counter("received_bytes", "Adapter bytes received", ["client"], **names)
    faults = Counter("faults", "Answers that were not counted", ["client"], **names)
    success = Gauge("heldout_success", "Held-out success rate", ["client"], **names)
    buffer = Gauge(
        "buffered_episodes", "Episodes a client says it learns from", ["client"], **names
    )
    played = Counter("episodes", "Episodes clients say they played", ["client"], **names)
    failed = Counter("failures", "Ends of the run before its last round", **names)

    def observe(event: str, entry: dict[str, Fact]) -> None:
        fact: dict[str, Any] = entry
        if event == "answer.received":
            client = fact["client"]
            sent.labels(client).inc(fact["bytes"])
            played.labels(client).inc(fact["played"])
            buffer.labels(client).set(fact["buffered"])
            faults.labels(client).inc(bool(fact["fault"]))
        elif event == "eval.recorded" and fact["played"]:
            success.labels(fact["client"]).set(fact["won"] / fact["played"])
        elif event == "round.committed":
            round_.set(fact["round"])
            seconds.set(fact["seconds"])
            for did in ("voters", "abstained", "excluded", "absent"):
                members.labels(did).set(fact[did])
        elif event in ENDED_BADLY:
            failed.inc()

    return observe


@contextmanager
def monitored(
    host: str, port: int, *, clock: Clock, patience: float
) -> Iterator[tuple[Observer, int]]:
    """An observer whose metrics and health are served on this address, and the port taken."""
    hint = "choose another address and port: --metrics 127.0.0.1:PORT"
    with boundary(MachineError, f"metrics cannot be served on {host}:{port}", hint=hint):
        from wsgiref.simple_server import WSGIRequestHandler, make_server

        from prometheus_client import CollectorRegistry, make_wsgi_app

        class Quiet(WSGIRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Prints nothing: a scrape comes every few seconds."""

        registry = CollectorRegistry()
        watch, count = Watch(clock=clock, patience=patience), metrics_observer(registry)
        app = _make_app(make_wsgi_app(registry), watch)
        server = make_server(host, port, app, handler_class=Quiet)

    def observe(event: str, entry: dict[str, Fact]) -> None:
        watch(event, entry)
        count(event, entry)

    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield observe, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_app(metrics: Callable[..., Iterable[bytes]], watch: Watch) -> Any:
    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return metrics(environ, start)
        if environ["PATH_INFO"] != "/health":
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"there is /metrics and /health\n"]
        health = watch.health()
        start(
            "200 OK" if health.well else "503 Service Unavailable",
            [("Content-Type", "application/json")],
        )
        return [json.dumps(health._asdict()).encode()]

    return app
