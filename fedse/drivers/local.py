"""Driver: every client on this machine, in this process or spread over a few of its own.

No network, no Flower; the same loop and the same client code, so the same adapter, bit for bit.
"""

import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

from fedse.config.schema import Config
from fedse.drivers.sites import OpenSite, Sites
from fedse.drivers.worker_log import LOG, print_to
from fedse.drivers.workers import Workers, worker_processes
from fedse.errors import RunError
from fedse.events import Emit, Fact
from fedse.protocol import Ask, Delivery, Question
from fedse.store.run import Run
from fedse.types import Clock


class InProcess:
    """Asks the clients one after another, here."""

    def __init__(self, run: Run, clock: Clock, open_site: OpenSite) -> None:
        self._run, self._sites = run, Sites(run.config, run.path, clock, open_site)

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        for client in self._run.config.members:
            if client in of:
                yield self._sites.answer(client, question, body, self._run.emit)

    def close(self) -> None:
        """No file of a client is open any more."""
        self._sites.close()


class AskWorkers:
    """Asks the clients in the processes of a pool."""

    def __init__(self, workers: Workers, config: Config) -> None:
        self._workers, self._config = workers, config

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        names = [name for name in self._config.members if name in of]
        futures = [self._workers.submit(_answer, name, question, body) for name in names]
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


def _answer(client: str, question: Question, body: bytes) -> Delivery:
    def emit(event: str, /, **facts: Fact) -> None:
        with _worker["lock"]:
            _worker["events"].send((event, facts))

    delivery: Delivery = _worker["sites"].answer(client, question, body, emit)
    return delivery
