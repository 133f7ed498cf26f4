"""What of a site runs right now, seen from another process."""

from typing import NamedTuple

from fedse.federation.home import Home
from fedse.federation.keys import PRESENCE
from fedse.federation.line import FILE as LINE
from fedse.federation.line import line_text, read_line
from fedse.flower.patches.presence import read_presence
from fedse.processes.orphans import names_running
from fedse.site.agreements import proposed
from fedse.site.rules import read_rules


class SiteState(NamedTuple):
    """A site that takes part has a worker and, unless the server is away, a node."""

    worker: bool
    node: bool
    let_in: bool
    """The server has let this site's node in, now or earlier: it is enrolled, or was."""
    paused: bool
    line: str
    """Whether the server is reached, and why not; empty = no node runs or knows yet."""
    proposed: tuple[int, ...] = ()
    """Numbers of the amendments that wait for the owner's consent."""


def site_state(home: Home) -> SiteState:
    """What `fedse site start` has running for this home, and what the site's files say."""
    running = names_running(home.path / "logs")
    line = read_line(home.path / LINE) if "node" in running else None
    return SiteState(
        worker="worker" in running,
        node="node" in running,
        let_in=read_presence(home.path / PRESENCE) is not None,
        paused=read_rules(home.policy).pause,
        proposed=tuple(one.number for one in proposed(home.path)),
        line=line_text(line, home.card.server) if line else "",
    )
