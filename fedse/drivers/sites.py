"""The sites of this process, for drivers that need no network."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fedse.config.schema import Config
from fedse.errors import FedSEError, require_packages
from fedse.events import Emit
from fedse.method.site import Site
from fedse.protocol import Delivery, Request, SiteReply, StageRequest, undelivered
from fedse.site.serve import serve
from fedse.types import Clock


class OpenSite(Protocol):
    """Opens a client's site from the experiment's config and the client's folder."""

    def __call__(self, config: Config, client: str, home: Path, *, clock: Clock) -> Site: ...


OPEN_AT_ONCE = 64
"""Sites of one process; a site has four open files, and many systems allow a process 1024."""


class Sites:
    """The sites of this process, each opened when it is asked.

    No more than `most` are open: the one that was asked the longest ago is closed for another.
    """

    def __init__(
        self,
        config: Config,
        path: Path,
        clock: Clock,
        open_site: OpenSite,
        *,
        most: int = OPEN_AT_ONCE,
    ) -> None:
        self._config, self._path, self._clock = config, path, clock
        self._open_site, self._most = open_site, most
        self._open: dict[str, Site] = {}
        """The one that was asked last is the last."""

    def site(self, client: str) -> Site:
        """The open site of a client; it stays open until `most` others were asked."""
        site = self._open.pop(client, None)
        if site is None:
            while len(self._open) >= self._most:
                self._open.pop(next(iter(self._open))).buffer.close()
            home = self._path / "clients" / client
            site = self._open_site(self._config, client, home, clock=self._clock)
        self._open[client] = site
        return site

    def answer(self, client: str, request: Request, data: bytes, emit: Emit) -> Delivery:
        """The client's answer; the failure of a client is data and does not end the round."""
        if client not in self._open:
            emit("site.opening", client=client, round=request.round)
        return _delivered(
            client, lambda: serve(request, data, self.site(client), self._config, emit=emit)
        )

    def answer_stage(self, client: str, request: StageRequest, data: bytes) -> Delivery:
        """The client's answer to a stage of a secure sum; its failure is data, too."""
        require_packages("aggregate.secure", "cryptography", "Crypto", extra="secure")
        from fedse.site.secure_stage import serve_stage

        return _delivered(
            client, lambda: serve_stage(request, data, self.site(client), self._config)
        )

    def close(self) -> None:
        """No file of a client is open any more."""
        for site in self._open.values():
            site.buffer.close()
        self._open.clear()


def _delivered(client: str, answer: Callable[[], SiteReply]) -> Delivery:
    try:
        reply = answer()
    except FedSEError as error:
        hint = f"; next: {error.hint}" if error.hint else ""
        return undelivered(client, "failed", f"{error}{hint}")
    return Delivery(client, reply.stats, reply.adapter)
