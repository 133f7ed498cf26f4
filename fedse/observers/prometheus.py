"""A run's state for a monitoring system: Prometheus metrics, and whether it is alive.

Numbers under the names of clients, as in the event log, and no other text. /metrics is for
Prometheus; /health answers 200 while the run is running or finished, and 503 after a failure or
when nothing has happened for too long.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from fedse.errors import MachineError, boundary
from fedse.events import Fact, Observer
from fedse.observers.health import ENDED_BADLY, Sites, Watch, WsgiApp, health_app, served
from fedse.types import Clock

Expiries = Mapping[str, Callable[[], float]]
"""Name of a certificate -> when it expires, in seconds since 1970, read at each scrape."""


def metrics_observer(registry: Any, expiries: Expiries | None = None) -> Observer:
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
        "buffered_episodes", "Episodes a client reports to learn from", ["client"], **names
    )
    played = Counter("episodes", "Episodes clients report to have played", ["client"], **names)
    failed = Counter("failures", "Times the run ended before its last round", **names)
    told = "When a certificate expires, in seconds since 1970"
    expires = Gauge("certificate_expires_seconds", told, ["certificate"], **names)
    for certificate, read in (expiries or {}).items():
        expires.labels(certificate).set_function(read)

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
    host: str,
    port: int,
    *,
    clock: Clock,
    patience: float,
    expiries: Expiries | None = None,
    sites: Sites | None = None,
) -> Iterator[tuple[Observer, int]]:
    """An observer whose metrics and health are served on this address, and the port."""
    hint = "choose another address and port: --metrics 127.0.0.1:PORT"
    with ExitStack() as stack:
        with boundary(MachineError, f"metrics cannot be served on {host}:{port}", hint=hint):
            from prometheus_client import CollectorRegistry, make_wsgi_app

            registry = CollectorRegistry()
            watch = Watch(clock=clock, patience=patience)
            count = metrics_observer(registry, expiries)
            app = _make_app(make_wsgi_app(registry), health_app(watch, sites))
            taken = stack.enter_context(served(host, port, app))

        def observe(event: str, entry: dict[str, Fact]) -> None:
            watch(event, entry)
            count(event, entry)

        yield observe, taken


def _make_app(metrics: Callable[..., Iterable[bytes]], health: WsgiApp) -> WsgiApp:
    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return metrics(environ, start)
        if environ["PATH_INFO"] == "/health":
            return health(environ, start)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"not found; try /metrics or /health\n"]

    return app
