"""The coordinator's folder: keys, the list of sites, the run, and the proxy's configuration.

Created complete or not at all; nothing is started here. Readable by its owner only.
"""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import tomlkit
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedse._version import __version__
from fedse.adapters.base import spec_of
from fedse.config.agreement import offered_settings
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.federation.enrolment import (
    Enrolment,
    EnrolmentRequest,
    first_list,
    read_list,
    revoked_sites,
    with_enrolment,
    with_invitation,
    with_revocation,
    write_list,
)
from fedse.federation.invite import Invite, write_invite
from fedse.federation.keys import AUTHORITY_KEY, Identity, make_identity
from fedse.federation.nginx import FILE as NGINX
from fedse.federation.nginx import nginx_config
from fedse.signed import fingerprint, public_hex
from fedse.store.files import OWNER_ONLY, from_backup, write_durably
from fedse.store.lock import one_command
from fedse.store.run_folder import create_run, newest_config
from fedse.types import Record

CARD, LIST, RUN, KEYS, SIGNING = (
    "federation.toml",
    "enrolment.json",
    "run",
    "keys",
    "signing.key",
)
# Changing the list takes milliseconds.
LIST_SECONDS = 10.0
CERTIFICATE_DAYS = 365
# Sites trust this authority for as long; only an invitation can bring them another.
AUTHORITY_DAYS = 3650


class Card(Record):
    """federation.toml: what this federation is and where it can be reached."""

    name: str
    host: str
    """The name in the server's certificate, at which sites reach the proxy."""
    port: int
    """The proxy's port; the only one reachable from outside."""
    link_port: int
    """The SuperLink's port, on the loopback address."""
    bundle: str
    """sha256 of the app bundle sites must accept."""
    fingerprint: str
    """Fingerprint of the key that signs invitations; sites get it over a separate channel."""


class Federation(NamedTuple):
    """An open folder."""

    path: Path
    card: Card

    @property
    def identity(self) -> Identity:
        keys = self.path / KEYS
        return Identity(keys / "ca.crt", keys / "server.pem", keys / "server.key")

    @property
    def can_renew(self) -> bool:
        """Whether the key that signs the server's certificates is here."""
        return (self.path / KEYS / AUTHORITY_KEY).is_file()

    @property
    def run(self) -> Path:
        return self.path / RUN

    @property
    def sites(self) -> Enrolment:
        return read_list(self.path / LIST)


def create(
    path: Path,
    config: Config,
    *,
    given: str,
    card: Card,
    now: datetime,
    clock: Callable[[], float],
) -> Federation:
    """`path` is a new federation, or does not exist; its run is created but not started.

    The fingerprint on the card is that of the signing key made here.
    """
    elsewhere = "choose a folder you may write to: --out FOLDER"
    with boundary(StoreError, f"{path} cannot be made", hint=elsewhere):
        try:
            path.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            raise ConfigError(
                f"{path} already exists", hint="name a new folder: --out FOLDER"
            ) from None
    path = path.resolve()
    try:
        (path / "logs").mkdir(mode=0o700)
        key = _make_keys(path / KEYS, card.host, now)
        create_run(path, config, given=given, name=RUN, now=now, clock=clock).close()
        sites = tuple(client.name for client in config.clients)
        write_list(path / LIST, first_list(card.name, sites))
        write_nginx(Federation(path, card), sites=len(sites))
        card = card.model_copy(update={"fingerprint": fingerprint(public_hex(key))})
        write_durably(path / CARD, tomlkit.dumps(card.model_dump(mode="json")).encode())
    except BaseException:
        shutil.rmtree(path)
        raise
    return Federation(path, card)


def write_nginx(federation: Federation, *, sites: int) -> None:
    """The proxy's configuration has room for so many sites."""
    path, card = federation
    text = nginx_config(path, host=card.host, port=card.port, link_port=card.link_port, sites=sites)
    write_durably(path / NGINX, text.encode())


def _make_keys(folder: Path, host: str, now: datetime) -> Ed25519PrivateKey:
    make_identity(
        folder,
        hosts=(host,),
        name="Fed-SE federation",
        days=CERTIFICATE_DAYS,
        authority_days=AUTHORITY_DAYS,
        now=now,
    )
    key = Ed25519PrivateKey.generate()
    write_durably(folder / SIGNING, key.private_bytes_raw(), mode=OWNER_ONLY)
    return key


def open_federation(path: Path) -> Federation:
    if not (path / CARD).is_file():
        raise ConfigError(
            f"{path} is not a federation: it has no {CARD}",
            hint="name the federation's folder with --dir; to make one: "
            f"fedse federation create CONFIG --out {path} --host NAME",
        )
    with boundary(StoreError, f"{path / CARD}", hint=from_backup(path / CARD)):
        card = Card.model_validate(tomllib.loads((path / CARD).read_text()))
    return Federation(path.resolve(), card)


def invite(federation: Federation, site: str, *, nonce: str, now: int, hours: float) -> Path:
    """A file for `site` is signed, and its number is on the list."""
    path, card = federation
    expires = now + round(hours * 3600)
    key, config = signing_key(federation), newest_config(federation.run)
    spec = spec_of(config)
    invitation = Invite(
        fedse=__version__,
        federation=card.name,
        experiment=config.run.name,
        site=site,
        members=tuple(sorted(client.name for client in config.clients)),
        server=f"{card.host}:{card.port}",
        ca=federation.identity.ca.read_text(),
        settings=offered_settings(config),
        agreed=config.agreed_digest(),
        spec=spec.identity,
        base=spec.base,
        bundle=card.bundle,
        nonce=nonce,
        issued=now,
        expires=expires,
        signer=public_hex(key),
    )
    with changing_list(path):
        enrolment = with_invitation(federation.sites, site, nonce=nonce, expires=expires)
        (path / "invites").mkdir(exist_ok=True, mode=0o700)
        file = write_invite(path / "invites" / f"{site}.invite.json", invitation, key)
        write_list(path / LIST, enrolment)
    return file


def signing_key(federation: Federation) -> Ed25519PrivateKey:
    """The key that signs invitations, whose fingerprint the sites are given."""
    file, expected = federation.path / KEYS / SIGNING, federation.card.fingerprint
    with boundary(StoreError, f"key {file} is damaged", hint=from_backup(file)):
        key = Ed25519PrivateKey.from_private_bytes(file.read_bytes())
        found = fingerprint(public_hex(key))
        if found != expected:
            raise ValueError(f"its fingerprint is {found}, expected {expected}")
    return key


def enrol(federation: Federation, request: EnrolmentRequest, *, now: float) -> Path:
    """The site is on the list; returns the file with its public key."""
    with changing_list(federation.path):
        enrolment = with_enrolment(federation.sites, request, now=now)
        key = write_public_key(federation, request.site, request.public_key)
        write_list(federation.path / LIST, enrolment)
    return key


def write_public_key(federation: Federation, site: str, public_key: str) -> Path:
    """The file from which Flower registers the site's key."""
    folder = federation.path / "sites"
    folder.mkdir(exist_ok=True, mode=0o700)
    key = folder / f"{site}.pub"
    write_durably(key, f"{public_key}\n".encode())
    return key


def revoke(federation: Federation, site: str) -> None:
    """The site is no longer on the list; its key is never accepted again."""
    with changing_list(federation.path):
        write_list(federation.path / LIST, with_revocation(federation.sites, site))
        (federation.path / "sites" / f"{site}.pub").unlink(missing_ok=True)


def revoked_in(run: Path) -> frozenset[str]:
    """The revoked sites of the federation that `run` belongs to; none if it belongs to none."""
    file = run.parent / LIST
    return revoked_sites(read_list(file)) if file.is_file() else frozenset()


@contextmanager
def changing_list(folder: Path) -> Iterator[None]:
    """No other command changes the list meanwhile, so no change is lost."""
    lock, doing = folder / ".enrolment.lock", f"changing {folder / LIST}"
    with one_command(lock, seconds=LIST_SECONDS, doing=doing), hints_name(folder):
        yield


@contextmanager
def hints_name(folder: Path) -> Iterator[None]:
    """A hint with a command for the coordinator also names the federation."""
    try:
        yield
    except ConfigError as error:
        if error.hint.startswith("fedse federation "):
            error.hint += f" --dir {folder}"
        raise


def nodes(federation: Federation) -> dict[str, int]:
    """The ids under which sites are registered at the SuperLink."""
    file = federation.path / "nodes.json"
    with boundary(StoreError, f"{file}"):
        ids: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return ids


def write_nodes(federation: Federation, ids: dict[str, int]) -> None:
    write_durably(federation.path / "nodes.json", json.dumps(ids, indent=2).encode())
