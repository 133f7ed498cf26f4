"""The messages between server and sites, for any transport: the one module both import."""

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from fedse.committed import Exclusion, ExclusionKind
from fedse.faults import Fault
from fedse.types import Adapter, ClientStats, Record

UNNAMED = -1


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
    validate_only: bool = False
    """Only the games that decide whether the adapter is accepted are played."""


SumStage = Literal["shares", "masked", "survivors", "unmask"]
"""The stages of a secure sum after the first, in which keys come in the place of an adapter."""


class StageRequest(Record):
    """What a client is asked in a stage of a secure sum; the stage's message travels beside it."""

    experiment: str
    round: int
    agreed: str
    spec: str
    adapter: str
    """Digest of the global adapter of the round."""
    stage: SumStage


def largest_stage_bytes(members: int) -> int:
    """No message of a sum's stages is longer, but a masked update: the longest has all shares."""
    # Measured: 640 bytes of keys per member, 110 of shares per pair.
    return 4096 + 1024 * members + 160 * members**2


class SiteReply(NamedTuple):
    """What a site answers, and keeps in its outbox: numbers, and an adapter if it has a vote."""

    stats: ClientStats
    adapter: bytes | None = None
    """None = no vote."""
    fault: Fault = Fault.NONE
    client: int = UNNAMED
    """Place of the client among all members' names in sorted order."""


class Delivery(NamedTuple):
    """What the server has received from one client."""

    client: str
    stats: ClientStats
    adapter: bytes | None = None
    """None = no vote."""
    exclusion: Exclusion | None = None
    """Why the reply cannot be used; None = it can."""

    @property
    def fault(self) -> str:
        """The exclusion in words; empty if there is none."""
        return self.exclusion.text if self.exclusion else ""


def undelivered(client: str, kind: ExclusionKind, reason: str) -> Delivery:
    """A delivery of nothing but the reason why there is nothing."""
    return Delivery(client, ClientStats(), None, Exclusion(client=client, kind=kind, reason=reason))


class Ask(Protocol):
    """Asks all members but `skip`; yields what arrives before the deadline, in any order."""

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterable[Delivery]: ...


@runtime_checkable
class AsksStages(Protocol):
    """An `Ask` that can also pass on the stages of a secure sum."""

    def ask_stage(
        self, request: StageRequest, data: bytes, *, of: Collection[str]
    ) -> Iterable[Delivery]:
        """Asks these members; what a member answers is in the place of a delivery's adapter."""
        ...
