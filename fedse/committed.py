"""What a committed round leaves: who voted, who did not count and why, and what was measured."""

from typing import Literal

from fedse.types import ClientStats, Record

ExclusionKind = Literal["rejected", "suspected", "quarantined", "revoked", "failed"]


class Exclusion(Record):
    """A client's reply that was not counted, and why, in the server's own words."""

    client: str
    kind: ExclusionKind
    """rejected: the reply broke the rules, which is a strike. suspected: the gate refuses the mean
    with its vote and not without it, which is a strike too. quarantined: earlier strikes were too
    many. revoked: the coordinator withdrew its key. failed: the site or its connection failed, or
    somebody else may have used its name."""
    reason: str

    @property
    def text(self) -> str:
        """Reason and, where it matters for the client, kind."""
        return self.reason if self.kind == "failed" else f"{self.kind}: {self.reason}"


class Drift(Record):
    """How the voters' updates compare with the merged one; the server computes every number."""

    length: dict[str, float]
    """Euclidean length of each voter's update, before clipping."""
    cosine: dict[str, float]
    """Cosine of each voter's update to the merged update; 0 where one of them is zero."""
    merge_error: float
    """||mean(BA) - mean(B) mean(A)|| / ||mean(BA)||: what averaging the factors changes."""


class GateRecord(Record):
    """What the sites' validation games said about a round's merged adapter."""

    change: float
    """Of the sites' success, the extreme ones left out."""
    bound: float
    """A smaller change is no chance any more."""
    sites: int
    """How many played; 0 = too few to decide."""
    refused: bool
    """The adapter of the round before stays."""


class RoundResult(Record):
    """One committed round."""

    index: int
    before: str
    after: str
    """Digests of the global adapter."""
    voters: tuple[str, ...]
    abstained: tuple[str, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    absent: tuple[str, ...] = ()
    stats: dict[str, ClientStats]
    bytes_down: int
    bytes_up: int
    seconds: float
    drift: Drift | None = None
    """None = nobody voted, or the adapters have more than 256 MB together."""
    gate: GateRecord | None = None
    """None = there is no gate."""
    moments: tuple[str, ...] = ()
    """Digests of what the aggregator remembers after this round."""
