"""When certificates expire, with a warning a month before; the time is an argument.

A coordinator knows both of its certificates. A site knows its authority's, and sees the server's
when it connects.
"""

import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fedse.errors import FedSEError
from fedse.federation.folder import Federation
from fedse.federation.home import Home
from fedse.federation.keys import valid_from, valid_until

WARN_DAYS = 30
DAY_SECONDS = 86400.0
CONNECT_SECONDS = 5.0


class Expiry(NamedTuple):
    """A certificate and its end, in seconds since 1970."""

    name: str
    """As in a metric: server or authority."""
    ends: float
    todo: str
    """What the reader of a warning should do."""

    def days_left(self, now: float) -> float:
        return (self.ends - now) / DAY_SECONDS


def certificates_of(federation: Federation) -> list[Expiry]:
    """The server's certificate and its authority's."""
    identity, folder = federation.identity, federation.path
    server, authority = valid_until(identity.certificate), valid_until(identity.ca)
    renew = f"fedse federation renew --dir {folder}"
    # Renewing cannot outlast the authority.
    first = renew if federation.can_renew and authority > server else NEW_FEDERATION
    return [
        Expiry("server", server.timestamp(), first),
        Expiry("authority", authority.timestamp(), NEW_FEDERATION),
    ]


NEW_FEDERATION = "finish the run before, or invite the sites to a new federation"
ASK = "ask the coordinator for: fedse federation renew"


def coordinator_warnings(federation: Federation, now: float) -> list[str]:
    """About the coordinator's certificates and its clock."""
    early = clock_warnings(federation.identity.ca, now)
    return early or warnings(certificates_of(federation), now)


def site_warnings(home: Home, now: float) -> list[str]:
    """About the authority in the site's home and, if the server answers now, its certificate."""
    todo = "ask the coordinator how to continue"
    if early := clock_warnings(home.authority, now):
        return early
    found = [Expiry("authority", valid_until(home.authority).timestamp(), todo)]
    try:
        server = served_until(home.card.server, home.authority)
    except ssl.SSLCertVerificationError as error:
        refused = f"the server's certificate is refused ({error.verify_message}): {ASK}"
        return [refused, *warnings(found, now)]
    if server:
        found = [Expiry("server", server.timestamp(), ASK), *found]
    return warnings(found, now)


def served_until(server: str, ca: Path) -> datetime | None:
    """When the certificate that `server` presents expires; None = no server answers.

    Makes one TLS handshake as the node would, and no request. A certificate that a node would
    refuse is an SSLCertVerificationError.
    """
    host, _, port = server.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=ca)
        with (
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as encrypted,
        ):
            ends = str((encrypted.getpeercert() or {}).get("notAfter", ""))
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, ValueError):
        return None  # the node itself reports that there is no connection
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC) if ends else None


def clock_warnings(authority: Path, now: float) -> list[str]:
    """One line if this machine's clock is before the authority's start, so that TLS fails."""
    begins = valid_from(authority).timestamp()
    if now >= begins:
        return []
    today, first = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (now, begins))
    return [
        f"this machine's clock shows {today} UTC, before the authority's certificate begins "
        f"({first}): set the clock (timedatectl)"
    ]


def warnings(certificates: Iterable[Expiry], now: float) -> list[str]:
    """One line for each certificate with less than WARN_DAYS days left."""
    lines = []
    for one in certificates:
        days = one.days_left(now)
        if days >= WARN_DAYS:
            continue
        day = f"{datetime.fromtimestamp(one.ends, UTC):%Y-%m-%d}"
        ends = f"expires in {days:.0f} days, on {day}" if days > 0 else f"expired on {day}"
        lines.append(f"the {one.name} certificate {ends}: {one.todo}")
    return lines


class DailyWarning:
    """Reports `found` at once, then daily; call `look` regularly."""

    def __init__(
        self, found: Callable[[float], Iterable[str]], tell: Callable[[str], None]
    ) -> None:
        self._found, self._tell = found, tell
        self._told = float("-inf")

    def look(self, now: float) -> None:
        """`now` in seconds since 1970; a clock that was set back does not delay a warning."""
        if self._told <= now < self._told + DAY_SECONDS:
            return
        self._told = now
        try:
            lines = list(self._found(now))
        except FedSEError as error:  # running processes continue with what they have read
            lines = [f"{error}: {error.hint}"]
        for line in lines:
            self._tell(f"warning: {line}")
