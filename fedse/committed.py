"""What a committed round leaves: who voted, who did not count and why, and what was measured."""

from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from fedse.types import ClientStats, Record

ExclusionKind = Literal["rejected", "suspected", "quarantined", "revoked", "failed"]


class Exclusion(Record):
    """A client's reply that was not counted, and why, in the server's own words."""

    client: str
    kind: ExclusionKind
    """rejected: the reply broke the rules, which is a strike. suspected: the gate refuses the mean
    with its vote but not without it, which is also a strike. quarantined: it already had too many
    strikes. revoked: the coordinator revoked its key. failed: the site or its connection failed, or
    someone else may have used its name."""
    reason: str

    @property
    def text(self) -> str:
        """The reason; the kind comes first, unless it is `failed`."""
        return self.reason if self.kind == "failed" else f"{self.kind}: {self.reason}"


class LateVote(Record):
    """A vote of an earlier round that counts as a part of one."""

    client: str
    round: int
    """The round it was made for."""
    adapter: str
    """Digest of what the client sent, as in the client's own ledger."""
    weight: float


LateVotes = Annotated[tuple[LateVote, ...], Field(exclude_if=not_)]
"""Written only where there are some, so that earlier releases can read the rest."""


VotedBlocks = Annotated[dict[str, tuple[str, ...]], Field(exclude_if=not_)]


class RegionVotes(Record):
    """The votes that a region has added up, as the coordinator above has counted them."""

    region: str
    sites: tuple[str, ...]
    """Whose votes they are, by the region's word; the region signed the list."""
    sum: str
    """Digest of the sum, as in the region's own ledger."""
    line: str
    """Hash of the region's signed line about it, in the region's own ledger."""
    bytes_up: int


RegionalVotes = Annotated[tuple[RegionVotes, ...], Field(exclude_if=not_)]
"""Written only where there are regions."""


class Drift(Record):
    """How the voters' updates compare with the merged one; the server computes every number."""

    length: dict[str, float]
    """Euclidean length of each voter's update, before clipping."""
    cosine: dict[str, float]
    """Cosine of each voter's update to the merged update; 0 where one of them is zero."""
    merge_error: float
    """||mean(BA) - mean(B) mean(A)|| / ||mean(BA)||: what averaging the factors changes."""


class GateRecord(Record):
    """What the sites' validation games showed about a round's merged adapter."""

    change: float
    """Mean change of the sites' success, without the most extreme sites."""
    bound: float
    """A change below this is unlikely to be chance."""
    sites: int
    """How many played; 0 = too few to decide."""
    refused: bool
    """The previous round's adapter is kept."""


class RoundResult(Record):
    """One committed round."""

    index: int
    before: str
    after: str
    """`before` and `after` are digests of the global adapter."""
    voters: tuple[str, ...]
    abstained: tuple[str, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    absent: tuple[str, ...] = ()
    stats: dict[str, ClientStats]
    bytes_down: int
    bytes_up: int
    seconds: float
    drift: Drift | None = None
    """None = nobody voted, or the adapters are larger than 256 MB in total."""
    gate: GateRecord | None = None
    """None = no gate."""
    moments: tuple[str, ...] = ()
    """Digests of what the aggregator remembers after this round."""
    late: LateVotes = ()
    """Of these voters, the vote is one of an earlier round."""
    blocks: VotedBlocks = {}  # noqa: RUF012 (pydantic copies it)
    """Voter -> the blocks of the adapter that its vote was on, if the adapter has blocks. Empty in
    a private step, to which all add in all blocks."""
    regions: RegionalVotes = ()
    """These voters are regions, each with the votes of its sites."""
