"""Driver: every client on this machine, in this process or spread over a few of its own.

No network, no Flower; the same loop and the same client code, so the same adapter, bit for bit.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fedse.config.schema import Config
from fedse.drivers.sites import OpenSite, Sites
from fedse.events import Fact
from fedse.protocol import Delivery, Request
from fedse.store.run import Run
from fedse.types import Adapter, Clock


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
