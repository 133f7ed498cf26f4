"""The sites of this process, for drivers that need no network."""

from pathlib import Path
from typing import Protocol

from fedse.config.schema import Config
from fedse.errors import FedSEError
from fedse.events import Emit
from fedse.method.site import Site
from fedse.protocol import Delivery, Request, undelivered
from fedse.site.serve import serve
from fedse.types import Clock


class OpenSite(Protocol):
    """Opens a client's site from the experiment's config and the client's folder."""

    def __call__(self, config: Config, client: str, home: Path, *, clock: Clock) -> Site: ...


class Sites:
    """The sites of this process, each opened when it is first asked."""

    def __init__(self, config: Config, path: Path, clock: Clock, open_site: OpenSite) -> None:
        self._config, self._path, self._clock = config, path, clock
        self._open_site = open_site
        self._open: dict[str, Site] = {}

    def answer(self, client: str, request: Request, data: bytes, emit: Emit) -> Delivery:
        """The client's answer; the failure of a client is data and does not end the round."""
        try:
            if client not in self._open:
                home = self._path / "clients" / client
                self._open[client] = self._open_site(self._config, client, home, clock=self._clock)
            reply = serve(request, data, self._open[client], self._config, emit=emit)
        except FedSEError as error:
            hint = f"; next: {error.hint}" if error.hint else ""
            return undelivered(client, "failed", f"{error}{hint}")
        return Delivery(client, reply.stats, reply.adapter)

    def close(self) -> None:
        """No file of a client is open any more."""
        for site in self._open.values():
            site.buffer.close()
        self._open.clear()
