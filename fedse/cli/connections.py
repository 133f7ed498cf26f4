"""What `fedse federation start` says of its sites: who came, who fell silent, who is missing."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedse.cli.federation_status import Committed, expected_sites, read_committed
from fedse.cli.phrases import clock_time, waiting_text
from fedse.errors import FedSEError

if TYPE_CHECKING:
    from fedse.federation.folder import Federation
    from fedse.federation.heard import SitePresence

Tell = Callable[[str], None]
PERIOD = 1.0
"""Seconds between two looks."""


def sites_now(federation: "Federation") -> dict[str, dict[str, Any]]:
    """What every enrolled site does now, as JSON has it."""
    from fedse.federation.heard import presences

    return {site: one._asdict() for site, one in presences(federation, time.monotonic()).items()}


def words_now(federation: "Federation") -> dict[str, str]:
    """What every enrolled site does now, in a word."""
    return {site: str(one["doing"]) for site, one in sites_now(federation).items()}


def tell_enrolment(federation: "Federation", *, tell: Tell) -> None:
    """Whoever starts the federation knows which sites cannot connect yet."""
    for line in enrolment_lines(federation):
        tell(line)


def enrolment_lines(federation: "Federation") -> Iterator[str]:
    """Which sites cannot connect yet, and the next command; nothing if all can."""
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
    """Tells of every site that comes, falls silent or leaves, and of those that are missing."""

    def __init__(self, *, tell: Tell) -> None:
        self._tell = tell
        self._before: dict[str, str] = {}
        self._missing: list[str] | None = None

    def look(
        self, seen: "Mapping[str, SitePresence]", expected: Sequence[str], *, now: float
    ) -> None:
        """What is different from the look before has been told."""
        for site, one in sorted(seen.items()):
            word = "connected" if one.connected is not None else one.doing
            if word != self._before.get(site, "away"):
                since = f", last heard {clock_time(one.since, now=now)}" if one.since else ""
                said = {"connected": "is connected", "left": "has left", "away": "is not connected"}
                self._tell(f"{site} {said.get(word, f'is {word}{since}')}")
            self._before[site] = word
        missing = [n for n in expected if self._before.get(n) != "connected"]
        if missing and missing != self._missing:
            self._tell(waiting_text(missing, of=len(expected)))
        elif self._missing and not missing:
            self._tell("all sites are connected")
        self._missing = missing


class CommittedRounds:
    """What a run's database says of its rounds, read again whenever its files have changed."""

    def __init__(self, run: Path) -> None:
        self._run, self._files = run, [run / "state.db", run / "state.db-wal"]
        self._read: tuple[object, Committed] | None = None

    def read(self) -> Committed:
        # Taken before: what is written while it is read counts at the next look.
        found = [file.stat() for file in self._files if file.is_file()]
        stamp = [(one.st_mtime_ns, one.st_size) for one in found]
        if self._read is None or self._read[0] != stamp:
            self._read = stamp, read_committed(self._run)
        return self._read[1]


@contextmanager
def connections_told(federation: "Federation", *, tell: Tell) -> Iterator[None]:
    """Meanwhile every change is told, a second late at most."""
    from fedse.federation.heard import presences

    lines, ended = ConnectionLines(tell=tell), threading.Event()
    rounds = CommittedRounds(federation.run)

    def look() -> None:
        expected = expected_sites(rounds.read(), federation.sites.members)
        lines.look(presences(federation, time.monotonic()), expected, now=time.time())

    def watch() -> None:
        while not ended.wait(PERIOD):
            # What is only told must not end what it is told of.
            with suppress(FedSEError, OSError):
                look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
