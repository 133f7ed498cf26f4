"""What server and sites say to each other, whatever carries it: the one module both import."""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from fedse.types import Adapter, ClientStats, Record


class Request(Record):
    """What a client is asked to do; the adapter travels beside it."""

    experiment: str
    round: int
    agreed: str
    """Digest of the settings all members share; a client refuses any other."""
    spec: str
    """Identity of the adapter spec, base model included; a client refuses any other."""
    adapter: str
    """Digest of the adapter that travels beside it."""
    train: bool
    evaluate: bool


class Delivery(NamedTuple):
    """What came back from one client."""

    client: str
    stats: ClientStats
    adapter: bytes | None
    fault: str = ""
    """Why the reply cannot be used, in the server's words; empty = it can."""


class Ask(Protocol):
    """Asks all members but `skip`; yields what arrives before the deadline, in any order."""

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterable[Delivery]: ...
