"""`fedse federation create`: a new federation, which may be a region of another one."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from fedse.cli.federation_options import HERE, require_flower
from fedse.cli.phrases import counted
from fedse.cli.run import Set
from fedse.config.file import experiment_text, load_config
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.federation.security import note
from fedse.ports import LINK_PORT, PROXY_PORT

if TYPE_CHECKING:
    from fedse.federation.folder import Card, Federation


class Offer(NamedTuple):
    """An invitation of a coordinator above, and the fingerprint of its key; both or none."""

    invitation: Path | None
    fingerprint: str


def create(
    config: Annotated[Path, Parameter(help="The experiment file; its clients are the sites.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The new folder.")] = HERE,
    host: Annotated[str, Parameter(help="Name or address at which sites reach the server.")],
    port: Annotated[int, Parameter(help="The only port that sites must reach.")] = PROXY_PORT,
    link_port: Annotated[
        int, Parameter(help="Port of the SuperLink on the loopback address.")
    ] = LINK_PORT,
    spare: Annotated[
        int, Parameter(help="Places for sites that are not known yet: spare-1, spare-2, ...")
    ] = 0,
    above: Annotated[
        Path | None, Parameter(help="Invitation to be a region of another federation.")
    ] = None,
    fingerprint: Annotated[
        str, Parameter(help="With --above: fingerprint of that coordinator's key, as read to you.")
    ] = "",
    set_: Set = [],  # noqa: B006  only read
) -> None:
    """Create keys, certificate, list of sites, run and nginx configuration; nothing is started.

    With --above it is a region: a site of the federation that invited it, and the coordinator of
    its own sites, of whose votes only the sum goes up. Its file needs [[clients]] alone.

    Example: fedse federation create my.toml --out federation --host fed.example.org
    """
    require_flower()
    from fedse.federation.spare import with_spare_places

    settings = with_spare_places(load_config(config, set_), spare)
    card = _card(settings, host, port, link_port)
    made = _made(out, settings, card, Offer(above, fingerprint), given=experiment_text(config))
    print(f"federation   {made.card.name}, {_sites(len(settings.clients), spare)}, {out}")
    print(f"fingerprint  {made.card.fingerprint}  (read it to the sites over the phone)")
    if above:
        print(f"send         {out}/above/enrolment.json to the coordinator above")
    print(f"next         fedse federation invite {settings.clients[0].name} --dir {out}")


def _card(settings: Config, host: str, port: int, link_port: int) -> "Card":
    from fedse.federation.folder import Card
    from fedse.flower.messages.bundle import own_digest

    bundle, name = own_digest(), settings.run.name
    return Card(name=name, host=host, port=port, link_port=link_port, bundle=bundle, fingerprint="")


def _made(out: Path, settings: Config, card: "Card", offer: Offer, *, given: str) -> "Federation":
    """The federation in `out`, alone or as a region of the one that wrote the invitation."""
    from fedse.federation import folder
    from fedse.federation.above import ABOVE, create_region
    from fedse.federation.invite import read_invite

    now, trusted = datetime.now(UTC), offer.fingerprint
    if offer.invitation is None:
        if trusted:
            raise ConfigError(
                "--fingerprint is that of the coordinator above, and there is no --above",
                hint="add --above INVITATION, or leave --fingerprint out",
            )
        return folder.create(out, settings, given=given, card=card, now=now, clock=time.time)
    offered = read_invite(offer.invitation, trusted=trusted, now=time.time())
    made = create_region(out, offered, settings, card=card, now=now, clock=time.time)
    note(made.path / ABOVE, "site.joined", clock=time.time)
    return made


def _sites(members: int, spare: int) -> str:
    sites = counted(members - spare, "site")
    return f"{sites} and {counted(spare, 'spare place')}" if spare else sites
