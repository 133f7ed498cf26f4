"""How `fedse federation start` reports on sites: connected, silent or missing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from fedse.cli.federation_view import FederationView, View
from fedse.cli.phrases import clock_time, waiting_text
from fedse.errors import FedSEError
from fedse.waiting import beside

if TYPE_CHECKING:
    from fedse.federation.folder import Federation

Tell = Callable[[str], None]
PERIOD = 1.0
"""Seconds between two looks."""


def sites_now(federation: "Federation") -> dict[str, dict[str, Any]]:
    """What every enrolled site is doing, as JSON."""
    from fedse.federation.heard import presences

    return {site: one._asdict() for site, one in presences(federation, time.monotonic()).items()}


def enrolment_lines(federation: "Federation") -> Iterator[str]:
    """The sites that cannot connect yet, and the next command; empty if all can."""
    members, folder = federation.sites.members, federation.path
    new = sorted(name for name, one in members.items() if one.state == "not invited")
    invited = sorted(name for name, one in members.items() if one.state == "invited")
    if not any(one.state == "enrolled" for one in members.values()):
        yield "warning: nobody is enrolled, so no site can connect yet"
    if invited:
        enrol = f"fedse federation enrol ENROLMENT.JSON --dir {folder}"
        yield f"not enrolled yet: {', '.join(invited)}; with the file that each site sends: {enrol}"
    if new:
        invite = f"fedse federation invite {new[0]} --dir {folder}"
        yield f"not invited yet: {', '.join(new)}; next: {invite}"


class ConnectionLines:
    """Reports every site that connects, falls silent or leaves, and those still missing."""

    def __init__(self, *, tell: Tell) -> None:
        self._tell = tell
        self._before: dict[str, str] = {}
        self._missing: list[str] | None = None

    def look(self, view: FederationView) -> None:
        """Every change since the last look has been reported."""
        for site, one in view.seen.items():
            word = "connected" if one.connected is not None else one.doing
            if word != self._before.get(site, "away"):
                since = f", last heard {clock_time(one.since, now=view.time)}" if one.since else ""
                said = {"connected": "is connected", "left": "has left", "away": "is not connected"}
                self._tell(f"{site} {said.get(word, f'is {word}{since}')}")
            self._before[site] = word
        connected = set(view.connected)
        missing = [name for name in view.expected if name not in connected]
        if missing and missing != self._missing:
            self._tell(waiting_text(missing, of=len(view.expected)))
        elif self._missing and not missing:
            self._tell("all sites are connected")
        self._missing = missing


def connections_told(view: View, *, tell: Tell) -> AbstractContextManager[None]:
    """Meanwhile every change is told, two seconds late at most."""
    lines = ConnectionLines(tell=tell)

    def watch(ended: threading.Event) -> None:
        while not ended.wait(PERIOD):
            # A failure to report must not stop the federation.
            with suppress(FedSEError, OSError):
                lines.look(view())

    return beside(watch)
