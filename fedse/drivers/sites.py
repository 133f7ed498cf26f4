"""The sites of this process, for drivers that need no network."""

from pathlib import Path
from typing import Protocol

from fedse.config.schema import Config
from fedse.errors import FedSEError
from fedse.events import Emit
from fedse.method.site import Site
from fedse.protocol import Delivery, Question, undelivered
from fedse.site.answer import serve
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

    def answer(self, client: str, question: Question, body: bytes, emit: Emit) -> Delivery:
        """The site's answer; the failure of a site is data and does not end the round."""
        if client not in self._open:
            emit("site.opening", client=client, round=question.round)
        try:
            reply = serve(question, body, self.site(client), self._config, emit=emit)
        except FedSEError as error:
            hint = f"; next: {error.hint}" if error.hint else ""
            return undelivered(client, "failed", f"{error}{hint}")
        if reply.fault:
            emit("answer.abstained", client=client, reason=reply.fault.words)
        return Delivery(client, reply.stats, reply.adapter)

    def close(self) -> None:
        """No file of a client is open any more."""
        for site in self._open.values():
            site.buffer.close()
        self._open.clear()
