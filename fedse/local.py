"""Driver: every client on this machine, in this process or spread over a few of its own.

No network, no Flower; the same loop and the same client code, so the same adapter, bit for bit.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

from fedse.config import Config
from fedse.coordinator import Delivery, Request, federate
from fedse.errors import FedSEError
from fedse.events import Emit, Fact
from fedse.parties import Site
from fedse.run import Run
from fedse.site.open import open_site
from fedse.site.serve import serve
from fedse.types import Adapter, ClientStats

Clock = Callable[[], float]


class OpenSite(Protocol):
    """Opens a client's site from the experiment's config and the client's folder."""

    def __call__(self, config: Config, client: str, home: Path, *, clock: Clock) -> Site: ...


def run_local(run: Run, *, clock: Clock = time.time, open_site: OpenSite = open_site) -> Adapter:
    """The whole experiment on this machine; the final global adapter."""
    if run.config.buffer.pooled:
        # Imported here, because that driver is made of this one.
        from fedse.pooled import Pooled

        return federate(run, Pooled(run, clock, open_site), clock=clock)
    if run.config.run.workers == 1:
        return federate(run, InProcess(run, clock, open_site), clock=clock)
    with WorkerPool(run, open_site) as ask:
        return federate(run, ask, clock=clock)


class Sites:
    """The sites of this process, each opened when it is first asked."""

    def __init__(self, config: Config, path: Path, clock: Clock, open_site: OpenSite) -> None:
        self._config, self._path, self._clock = config, path, clock
        self._open_site = open_site
        self._open: dict[str, Site] = {}

    def answer(self, client: str, request: Request, data: bytes, emit: Emit) -> Delivery:
        """The client's answer; a client that breaks is data, not the end of the round."""
        try:
            if client not in self._open:
                home = self._path / "clients" / client
                self._open[client] = self._open_site(self._config, client, home, clock=self._clock)
            done = serve(request, data, self._open[client], self._config, emit=emit)
        except FedSEError as error:
            return Delivery(client, ClientStats(), None, fault=str(error))
        return Delivery(client, done.stats, done.adapter)


class InProcess:
    """Asks the clients one after another, here."""

    def __init__(self, run: Run, clock: Clock, open_site: OpenSite) -> None:
        self._run, self._sites = run, Sites(run.config, run.path, clock, open_site)

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = adapter.to_bytes()
        for client in self._run.config.clients:
            if client.name not in skip:
                yield self._sites.answer(client.name, request, data, self._run.emit)


class WorkerPool:
    """Asks the clients in worker processes; any worker can serve any client, from its folder."""

    def __init__(self, run: Run, open_site: OpenSite) -> None:
        self._run = run
        context = multiprocessing.get_context("spawn")
        self._events: Any = context.SimpleQueue()
        workers = min(run.config.run.workers, len(run.config.clients))
        self._executor = ProcessPoolExecutor(
            workers, context, _start_worker, (run.config, run.path, open_site, self._events)
        )
        self._relay = threading.Thread(target=self._relay_events, daemon=True)

    def __enter__(self) -> "WorkerPool":
        self._relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._events.put(None)
        self._relay.join()

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = adapter.to_bytes()
        asked = [
            self._executor.submit(_answer, client.name, request, data)
            for client in self._run.config.clients
            if client.name not in skip
        ]
        for done in as_completed(asked):
            yield done.result()

    def _relay_events(self) -> None:
        while (said := self._events.get()) is not None:
            event, facts = said
            self._run.emit(event, **facts)


_worker: dict[str, Any] = {}


def _start_worker(config: Config, path: Path, open_site: OpenSite, events: Any) -> None:
    _worker["sites"] = Sites(config, path, time.time, open_site)
    _worker["events"] = events
    follow_parent()


def follow_parent() -> None:
    """This worker ends when the process that started it does, and not before."""
    # A terminal sends Ctrl-C to all of its processes; only the starter is to answer it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _answer(client: str, request: Request, data: bytes) -> Delivery:
    def emit(event: str, /, **facts: Fact) -> None:
        _worker["events"].put((event, facts))

    delivery: Delivery = _worker["sites"].answer(client, request, data, emit)
    return delivery
