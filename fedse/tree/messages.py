"""What a region and the coordinator above it say to each other; neither imports the other.

Two questions a round: first who votes and how long each update is, then the sum of those votes
under the bound that follows from all lengths. Both answers are lines of the region's ledger, so
they are signed, and the region cannot deny them later. Adapters of sites never go up.
"""

from typing import NamedTuple

from fedse.committed import Exclusion
from fedse.faults import Fault
from fedse.ledger.chain import Entry
from fedse.protocol import Request
from fedse.types import ClientStats, Record, digest_of


class SumWanted(Record):
    """Which votes to add up, and how."""

    voters: tuple[str, ...]
    """In sorted order."""
    bound: float | None
    """The length no update may exceed; None = any."""


class RegionAsk(Record):
    """A question to a region; the global adapter travels beside it."""

    region: str
    request: Request
    """What its sites are asked."""
    skip: tuple[str, ...] = ()
    """Members that are not asked."""
    wanted: SumWanted | None = None
    """None = ask the sites and tell who votes."""


class SiteLine(Record):
    """What a region tells of one of its sites."""

    client: str
    stats: ClientStats
    votes: bool = False
    length: float | None = None
    """Of the vote's update; None = there is no vote, or no setting asks for lengths."""
    exclusion: Exclusion | None = None


class RegionReply(NamedTuple):
    """What a region answers."""

    fault: Fault = Fault.NONE
    lines: tuple[SiteLine, ...] = ()
    entry: Entry | None = None
    """The line of its ledger that says so."""
    total: bytes = b""
    """The sum, if one was wanted."""


def digest_of_lines(lines: tuple[SiteLine, ...]) -> str:
    return digest_of([line.model_dump(mode="json") for line in lines])
