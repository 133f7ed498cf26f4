"""Which sites are connected, since when and doing what, by what the SuperLink last heard.

Sites do not report this. The SuperLink records when a node asked, took a question or answered: a
site that took a question and has not answered it is working on it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedse.federation.folder import Federation, nodes
from fedse.store.files import OWNER_ONLY, write_if_possible
from fedse.store.lock import is_locked
from fedse.types import Record

FILE = "heard.json"
# A SuperNode is heard from at least every 4.5 s.
SILENT_SECONDS = 8.0
# In a federation of more sites than these, as Flower has it: every 22.5 s, and 20 s later if one is
# lost. The heartbeats of 600 sites every four seconds leave a SuperLink no time for anything else.
MANY_SITES, MANY_SILENT_SECONDS = 100, 45.0

Doing = Literal["working", "sent", "idle", "silent", "left", "away"]


class HeardNode(Record):
    """What a SuperLink recorded about one node; dates in seconds since 1970."""

    since: float
    """When it connected, or was first heard from after a silence."""
    heard: float
    """When it last asked for anything."""
    tick: float
    """The same by a monotonic clock of this machine, from which its age follows."""
    asked: float | None = None
    """When it took the question it has not answered yet."""
    sent: float | None = None
    """When it last answered."""
    round: int | None = None
    """The round of the last question it took."""
    left: bool = False
    """Whether it disconnected properly."""
    silent: float = SILENT_SECONDS
    """Seconds without a sign after which it counts as silent."""


class SitePresence(NamedTuple):
    """What is known about a site now."""

    doing: Doing
    since: float | None
    """Since when; for a silent site, when it was last heard from."""
    round: int | None
    """The round it is working on or has answered."""
    connected: float | None
    """Since when it has been connected; None = it is not."""


def presence_of(node: HeardNode | None, tick: float) -> SitePresence:
    """What a site is doing, as one word of a fixed list; `tick` is now."""
    if node is None:
        return SitePresence("away", None, None, None)
    if node.left:
        return SitePresence("left", node.heard, None, None)
    if is_silent(node, tick):
        return SitePresence("silent", node.heard, node.round, None)
    if node.asked is not None:
        return SitePresence("working", node.asked, node.round, node.since)
    if node.sent is not None:
        return SitePresence("sent", node.sent, node.round, node.since)
    return SitePresence("idle", node.since, None, node.since)


def silent_seconds(sites: int) -> float:
    """After how long a site counts as silent in a federation of so many."""
    return SILENT_SECONDS if sites <= MANY_SITES else MANY_SILENT_SECONDS


def is_silent(node: HeardNode, tick: float) -> bool:
    """A tick in the future is from before the machine was rebooted."""
    return not 0 <= tick - node.tick <= node.silent


def read_heard(file: Path) -> dict[int, HeardNode]:
    """The nodes in `file`, by number; empty if it is missing or unusable."""
    try:
        found: Mapping[str, Any] = json.loads(file.read_text())
        return {int(number): HeardNode.model_validate(one) for number, one in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def write_heard(file: Path, heard: Mapping[int, HeardNode]) -> None:
    """`file` holds them; if that fails, as on a full disk, it keeps its earlier content."""
    text = json.dumps({str(number): one.model_dump() for number, one in heard.items()})
    write_if_possible(file, text.encode(), mode=OWNER_ONLY)


def enrolled_sites(federation: Federation) -> list[str]:
    """The sites that may connect, in order of name."""
    members = federation.sites.members
    return sorted(name for name, member in members.items() if member.state == "enrolled")


def is_served(federation: Federation) -> bool:
    """Whether `fedse federation start` is running for it."""
    return is_locked(federation.path)


def presences(federation: Federation, tick: float) -> dict[str, SitePresence]:
    """Every enrolled site of a running federation; empty if its server is not running."""
    if not is_served(federation):
        return {}
    heard, numbers = read_heard(federation.path / FILE), nodes(federation)
    return {
        site: presence_of(heard.get(numbers[site]) if site in numbers else None, tick)
        for site in enrolled_sites(federation)
    }
