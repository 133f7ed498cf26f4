"""The sites of a region on its own machine: each a worker behind a local socket."""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from fedse.aggregate.factors import request_bytes, travelling_spec
from fedse.config.schema import Config
from fedse.protocol import Delivery, Request, undelivered
from fedse.site.socket_client import ask_site, ask_until_served
from fedse.types import Adapter, AdapterSpec

# Seconds in which a worker that died is started again and has loaded its model.
PATIENCE = 60.0
# A worker that dies this often over one request does not die by accident.
TRIES = 5


class WorkerSockets:
    """Asks all workers at once, each through the socket of its client."""

    def __init__(self, config: Config, spec: AdapterSpec, sockets: Mapping[str, Path]) -> None:
        self._config, self._spec, self._sockets = config, spec, dict(sockets)

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = request_bytes(adapter, self._config)
        clients = [client for client in sorted(self._sockets) if client not in skip]
        # One thread per site: all it does is wait.
        with ThreadPoolExecutor(max(1, len(clients))) as threads:
            asked = [threads.submit(self._answer, client, request, data) for client in clients]
            for done in as_completed(asked):
                yield done.result()

    def _answer(self, client: str, request: Request, data: bytes) -> Delivery:
        ask = partial(
            ask_site,
            self._sockets[client],
            request.model_dump(mode="json"),
            data,
            client=None,
            max_reply_bytes=travelling_spec(self._spec, self._config).nbytes,
            timeout=self._config.aggregate.deadline,
        )
        reply = ask_until_served(ask, patience=PATIENCE, tries=TRIES)
        if reply.fault.abstains:
            return Delivery(client, reply.stats)
        if reply.fault:
            return undelivered(client, "failed", reply.fault.words)
        return Delivery(client, reply.stats, reply.adapter)
