"""Which sites are connected now, since when and doing what: as the SuperLink last heard of them.

A site tells none of this. The SuperLink notes when a node asked, took a question or answered, and
what a site does follows from that: a question it took and has not answered is being worked on.
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
# A SuperNode of ours is heard every 4.5 s at the latest.
SILENT_SECONDS = 8.0

Doing = Literal["working", "sent", "idle", "silent", "left", "away"]


class HeardNode(Record):
    """What a SuperLink noted of one node; dates in seconds since 1970."""

    since: float
    """When it came, or was first heard again after a silence."""
    heard: float
    """When it last asked for anything."""
    tick: float
    """The same by a clock of this machine that nobody can set, which also tells how long ago."""
    asked: float | None = None
    """When it took the question it has not answered yet."""
    sent: float | None = None
    """When it last answered."""
    round: int | None = None
    """Of the last question it took."""
    left: bool = False
    """Whether it said goodbye."""


class SitePresence(NamedTuple):
    """What is known of a site now."""

    doing: Doing
    since: float | None
    """Since when it does that; of a silent site, when it was last heard."""
    round: int | None
    """The round it works on or has sent."""
    connected: float | None
    """Since when it is connected; None = it is not."""


def presence_of(node: HeardNode | None, tick: float) -> SitePresence:
    """What a site does, in one word of a fixed list; `tick` is now."""
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


def is_silent(node: HeardNode, tick: float) -> bool:
    """A tick that is still to come is one of before the machine was started anew."""
    return not 0 <= tick - node.tick <= SILENT_SECONDS


def read_heard(file: Path) -> dict[int, HeardNode]:
    """The nodes in `file`, by number; none where it is not there or not usable."""
    try:
        found: Mapping[str, Any] = json.loads(file.read_text())
        return {int(number): HeardNode.model_validate(one) for number, one in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def write_heard(file: Path, heard: Mapping[int, HeardNode]) -> None:
    """`file` holds them; where it cannot, as on a full disk, what it held before."""
    text = json.dumps({str(number): one.model_dump() for number, one in heard.items()})
    write_if_possible(file, text.encode(), mode=OWNER_ONLY)


def enrolled_sites(federation: Federation) -> list[str]:
    """The sites that may connect, in order of name."""
    members = federation.sites.members
    return sorted(name for name, member in members.items() if member.state == "enrolled")


def is_served(federation: Federation) -> bool:
    """Whether a `fedse federation start` runs for it."""
    return is_locked(federation.path)


def presences(federation: Federation, tick: float) -> dict[str, SitePresence]:
    """Every enrolled site of a federation that is served; nobody if it is not."""
    if not is_served(federation):
        return {}
    heard, numbers = read_heard(federation.path / FILE), nodes(federation)
    return {
        site: presence_of(heard.get(numbers[site]) if site in numbers else None, tick)
        for site in enrolled_sites(federation)
    }
