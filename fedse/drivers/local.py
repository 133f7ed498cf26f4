"""Driver: every client on this machine, in this process or spread over a few of its own.

No network, no Flower; the same loop and the same client code, so the same adapter, bit for bit.
"""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

from fedse.aggregate.factors import request_bytes
from fedse.config.schema import Config
from fedse.drivers.sites import OpenSite, Sites
from fedse.drivers.worker_log import LOG, print_to
from fedse.drivers.workers import Workers, worker_processes
from fedse.errors import RunError
from fedse.events import Emit, Fact
from fedse.protocol import Ask, Delivery, Request, StageRequest
from fedse.store.run import Run
from fedse.types import Adapter, Clock


class InProcess:
    """Asks the clients one after another, here."""

    def __init__(self, run: Run, clock: Clock, open_site: OpenSite) -> None:
        self._run, self._sites = run, Sites(run.config, run.path, clock, open_site)

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = request_bytes(adapter, self._run.config)
        for client in self._run.config.clients:
            if client.name not in skip:
                yield self._sites.answer(client.name, request, data, self._run.emit)

    def ask_stage(
        self, request: StageRequest, data: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        """These clients' answers to a stage of a secure sum, one after another."""
        for client in of:
            yield self._sites.answer_stage(client, request, data)

    def close(self) -> None:
        """No file of a client is open any more."""
        self._sites.close()


class AskWorkers:
    """Asks the clients in the processes of a pool."""

    def __init__(self, workers: Workers, config: Config) -> None:
        self._workers, self._config = workers, config

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = request_bytes(adapter, self._config)
        names = [client.name for client in self._config.clients if client.name not in skip]
        return self._answers([self._workers.submit(_answer, n, request, data) for n in names])

    def ask_stage(
        self, request: StageRequest, data: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        """These clients' answers to a stage of a secure sum, in any order."""
        return self._answers([self._workers.submit(_answer_stage, n, request, data) for n in of])

    def _answers(self, futures: Sequence[Future[Delivery]]) -> Iterator[Delivery]:
        for future in as_completed(futures):
            yield future.result()


@contextmanager
def worker_pool(run: Run, open_site: OpenSite) -> Iterator[Ask]:
    """Asks the clients in worker processes; any worker can serve any client, from its folder.

    When it is left by an exception, such as Ctrl-C, no other client is asked and none is awaited.
    What the processes print is in the run's folder; the error names the file if one of them dies.
    """
    # Not a queue: a worker that is killed could hold its lock for ever.
    events, write_end = get_context("spawn").Pipe(duplex=False)
    lock, config = get_context("spawn").Lock(), run.config
    count = min(config.run.workers, len(config.clients))
    relay = threading.Thread(target=_relay, args=(events, run.emit), daemon=True)
    relay.start()
    try:
        arguments = (config, run.path, open_site, write_end, lock)
        with worker_processes(count, _prepare, *arguments) as workers:
            yield AskWorkers(workers, config)
    except BrokenProcessPool as error:
        raise RunError(
            f"a worker process ended unexpectedly; what it printed is in {run.path / LOG}"
        ) from error
    finally:
        # The workers are gone, so the relay now reaches the end of their events.
        write_end.close()
        relay.join()
        events.close()


def _relay(events: Connection, emit: Emit) -> None:
    while True:
        try:
            event, facts = events.recv()
        except (EOFError, OSError):
            return  # every worker is gone, one of them perhaps in the middle of an event
        emit(event, **facts)


_worker: dict[str, Any] = {}


def _prepare(
    config: Config, path: Path, open_site: OpenSite, events: Connection, lock: Lock
) -> None:
    print_to(path / LOG)
    _worker["sites"] = Sites(config, path, time.time, open_site)
    _worker["events"], _worker["lock"] = events, lock


def _answer(client: str, request: Request, data: bytes) -> Delivery:
    def emit(event: str, /, **facts: Fact) -> None:
        with _worker["lock"]:
            _worker["events"].send((event, facts))

    delivery: Delivery = _worker["sites"].answer(client, request, data, emit)
    return delivery


def _answer_stage(client: str, request: StageRequest, data: bytes) -> Delivery:
    delivery: Delivery = _worker["sites"].answer_stage(client, request, data)
    return delivery
