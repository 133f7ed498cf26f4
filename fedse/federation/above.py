"""A federation that is a region: what it agreed on with the coordinator above, and its home there.

The home is a folder inside the federation's, made as a site makes one: a key of its own, rules, and
a request that the coordinator above enrols. The region's sites are told of none of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.config.agreement import ELSEWHERE, changes_between
from fedse.config.file import dump_config
from fedse.config.hardware import OWN_SECTIONS
from fedse.config.regional import region_config
from fedse.config.schema import Config, ModelSection
from fedse.errors import ConfigError, MachineError
from fedse.federation import folder
from fedse.federation.folder import Card, Federation
from fedse.federation.home import SITE, Home, agreed_config, join, open_home
from fedse.federation.invite import Invite
from fedse.store.files import write_whole

ABOVE, SOCKET = "above", "socket.txt"
OURS = ("aggregate.deadline", "aggregate.min_clients", "aggregate.regions", "members")
"""Settings that differ between a region and the coordinator above, whatever its file says."""


def settled_region(offered: Invite, given: Config) -> tuple[Config, Config]:
    """What the region agrees on above, and what its sites will: the same, but for the members.

    `given` names the region's sites and what is its own; it may repeat other settings.
    """
    base = given.model.base
    copy = None if base in (ModelSection().base, offered.base) else base
    above = agreed_config(offered, env=ELSEWHERE, options={}, base=copy)
    most = above.aggregate.regions.get(offered.site)
    if most is None:
        raise ConfigError(
            f"{offered.site} is invited as a site, not as a region",
            hint=f"ask the coordinator above to name {offered.site} in aggregate.regions",
        )
    if len(given.clients) > most:
        raise ConfigError(
            f"{len(given.clients)} clients, and {offered.site} may speak for {most} sites",
            hint="ask the coordinator above for more in aggregate.regions, or name fewer clients",
        )
    below = region_config(above, given.clients)
    _require_repeated(given, below)
    own = {name: getattr(given, name) for name in OWN_SECTIONS}
    return above, below.model_copy(update=own)


def _require_repeated(given: Config, below: Config) -> None:
    """What the region's file sets, the coordinator above has set as well."""
    plain = Config(clients=given.clients)
    said = {change.key for change in changes_between(plain, given)}
    other = [
        change
        for change in changes_between(given, below)
        if change.key in said and change.key not in OURS
    ]
    if other:
        raise ConfigError(
            f"the coordinator above has set this otherwise: {other[0].line}",
            hint="leave all but [[clients]] out of the file: the invitation has the settings",
        )


def create_region(
    path: Path,
    offered: Invite,
    given: Config,
    *,
    card: Card,
    now: datetime,
    clock: Callable[[], float],
) -> Federation:
    """`path` is a new federation, and the home of a member of the one above inside it."""
    if card.bundle != offered.bundle:
        raise ConfigError(
            "the coordinator above has another app bundle than this fedse would build",
            hint=f"install fedse {offered.fedse} with the same Flower as there",
        )
    above, below = settled_region(offered, given)
    card = card.model_copy(update={"name": f"{offered.federation}-{offered.site}"})
    text = dump_config(below)
    made = folder.create(path, below, given=text, card=card, now=now, clock=clock)
    join(offered, above, made.path / ABOVE, bundle=card.bundle)
    return made


def home_above(federation: Path) -> Home | None:
    """The home of the federation in that folder at the coordinator above; None = it has none."""
    path = federation / ABOVE
    return open_home(path) if (path / SITE).is_file() else None


def require_alone(federation: Federation, config: Config) -> None:
    """There is no coordinator above and no region; else an amendment has no meaning."""
    if config.aggregate.regions or (federation.path / ABOVE / SITE).is_file():
        raise ConfigError(
            "an amendment is not possible with regions: one agreement holds in all of them",
            hint="end this federation, and create it and its regions anew",
        )


@contextmanager
def socket_above(federation: Path) -> Iterator[Path]:
    """Where the region's round loop listens; its file in the home says so."""
    with TemporaryDirectory(prefix="fedse-") as place:
        socket = Path(place) / "site.sock"
        write_whole(federation / ABOVE / SOCKET, str(socket).encode())
        yield socket


def told_socket(home: Path) -> Path:
    """The socket that `fedse federation start` has named in this home."""
    try:
        return Path((home / SOCKET).read_text())
    except OSError as error:
        raise MachineError(
            f"{home / SOCKET} cannot be read: {error.strerror}",
            hint=f"fedse federation start --dir {home.parent}",
        ) from error
