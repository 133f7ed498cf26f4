"""A site's own folder: what it agreed to, its key, its rules; made by joining, before any contact.

Joining sends nothing. Everything the invitation claims about the experiment is computed again
from what is installed here, and a difference refuses the invitation.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from fedse.adapters.base import is_name, spec_of
from fedse.config.agreement import ELSEWHERE, config_of
from fedse.config.file import dump_config, load_config, with_own_settings
from fedse.config.hardware import OWN_SECTIONS
from fedse.config.schema import Config
from fedse.errors import ConfigError, MachineError, StoreError, boundary
from fedse.federation.enrolment import request_enrolment
from fedse.federation.invite import Invite
from fedse.federation.keys import NodeKey, make_node_key, read_authority
from fedse.federation.site_key import require_node_key
from fedse.signed import fingerprint
from fedse.site.agreements import LAST, config_in
from fedse.site.rules import first_rules, read_rules, write_rules
from fedse.store.files import from_backup, write_durably
from fedse.types import Record

SITE, EXPERIMENT, POLICY, AUTHORITY, REQUEST = (
    "site.toml",
    "experiment.toml",
    "policy.toml",
    "ca.crt",
    "enrolment.json",
)
OWN_SETTINGS = """
# This machine's own settings; the federation neither knows nor agrees on them.
# All of them: fedse config explain engine, trainer, storage, watchdog, redact or privacy
[engine]
type = "in-process"

[trainer]
device = "cpu"

[storage]
answers = 5

# One word for all of privacy instead: fedse privacy explain
[redact]
secrets = true
"""
BESIDE = ("service",)
"""Sections of site.toml that packages beside fedse read; here they are left alone."""


class SiteCard(Record):
    """The head of site.toml: which federation this is and what was agreed."""

    federation: str
    site: str
    server: str
    agreed: str
    spec: str
    bundle: str
    coordinator: str
    """Fingerprint of the key that signed the invitation."""


class Home(NamedTuple):
    """An open site folder."""

    path: Path
    card: SiteCard
    config: Config

    @property
    def key(self) -> NodeKey:
        return NodeKey(self.path / "node.key", self.path / "node.pub")

    @property
    def policy(self) -> Path:
        return self.path / POLICY

    @property
    def authority(self) -> Path:
        return self.path / AUTHORITY


def agreed_config(
    invite: Invite,
    *,
    env: str,
    options: Mapping[str, Any],
    base: str | None,
    roles: Sequence[str] = (),
) -> Config:
    """The experiment as this site will run it; refused unless its digests match.

    `roles` are those of the agent that act here; none = all.
    """
    client = {"name": invite.site, "env": env, "options": dict(options)}
    client |= {"roles": [*roles]} if roles else {}
    others = [{"name": n, "env": ELSEWHERE} for n in invite.members if n != invite.site]
    model = {"base": _whole(base) if base else invite.base}
    own = {"model": model, "clients": [client, *others]}
    config = config_of(invite, own, f"settings in the invitation of {invite.site}")
    _require_base(
        config,
        invite.spec,
        missing=f"the federation's base model {invite.base!r} is not here",
        other=f"the base model {config.model.base!r} here is not the federation's "
        f"({invite.base}): other weights, tokenizer or layout",
        hint=f"add --base FOLDER to the command: the folder with your copy of {invite.base}",
    )
    return config


def _require_base(config: Config, spec: str, *, missing: str, other: str, hint: str) -> None:
    """The base model of `config` is on this machine and has the identity `spec`."""
    try:
        identity = spec_of(config).identity
    except MachineError as error:
        fetch = f"{error.hint}, or " if is_name(config.model.base) else ""
        raise MachineError(f"{missing}: {error}", hint=f"{fetch}{hint}") from error
    if identity != spec:
        raise MachineError(other, hint=hint)


def _whole(base: str) -> str:
    """A name known on every machine, or the folder's absolute path."""
    return base if is_name(base) else str(Path(base).expanduser().resolve())


def join(
    invite: Invite,
    config: Config,
    path: Path,
    *,
    bundle: str,
    settle: Callable[[SiteCard], str] | None = None,
) -> Home:
    """`path` is the site's folder, with a node key and a request to the coordinator.

    `settle` is called before the folder is a site's, and returns the site's own settings as TOML.
    """
    if bundle != invite.bundle:
        raise ConfigError(
            "the app bundle the server will send is not the one this fedse would build",
            hint=f"install fedse {invite.fedse} with the same Flower as the coordinator",
        )
    if (path / SITE).exists():
        raise ConfigError(
            f"{path} already belongs to a federation, and a folder holds the data of one",
            hint="name a new folder: --home FOLDER",
        )
    elsewhere = "choose a folder you may write to: --home FOLDER"
    with boundary(StoreError, f"{path} cannot be made a site's folder", hint=elsewhere):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = make_node_key(path)
        write_durably(path / AUTHORITY, invite.ca.encode())
        agreed = dump_config(config, without=OWN_SECTIONS)
        write_durably(path / EXPERIMENT, agreed.encode())
        write_rules(path / POLICY, first_rules(config, adapter_bytes=spec_of(config).nbytes))
        request = request_enrolment(invite, key.private, key.public)
        text = json.dumps(request.model_dump(mode="json"), indent=2) + "\n"
        write_durably(path / REQUEST, text.encode())
    shared = invite.model_dump(include=set(SiteCard.model_fields))
    card = SiteCard(**shared, coordinator=fingerprint(invite.signer))
    # A folder is a site's once it has this file, which is therefore written last.
    facts = tomlkit.dumps(card.model_dump(mode="json"))
    own = settle(card) if settle else OWN_SETTINGS
    write_durably(path / SITE, (facts + own).encode())
    return Home(path, card, with_own_settings(config, path / SITE))


def open_home(path: Path) -> Home:
    """The site in `path`, with settings, base model and rules still as agreed."""
    if not (path / SITE).is_file():
        raise ConfigError(
            f"{path} is not the home of a site: it has no {SITE}",
            hint="name the site's folder with --home; to make one: "
            f"fedse site join INVITE --home {path} --env ENV",
        )
    with boundary(StoreError, f"{path / SITE}", hint=from_backup(path / SITE)):
        facts = tomllib.loads((path / SITE).read_text())
        own = {name: facts.pop(name) for name in OWN_SECTIONS if name in facts}
        card = SiteCard.model_validate({k: v for k, v in facts.items() if k not in BESIDE})
    config = load_config(path / EXPERIMENT)
    if own:
        config = with_own_settings(config, path / SITE)
    first, config = config, config_in(path, config, LAST)
    if first.agreed_digest() != card.agreed:
        raise ConfigError(
            f"{path / EXPERIMENT} is no longer what was agreed",
            hint="undo the change; env, options, base and workers are yours to change here, "
            f"{', '.join(OWN_SECTIONS)} in {path / SITE}",
        )
    _require_base(
        first,
        card.spec,
        missing="the base model is missing",
        other=f"the base model {first.model.base!r} is not the one agreed on",
        hint=f"put it back, or set model.base in {path / EXPERIMENT} to the folder that has it",
    )
    read_rules(path / POLICY)
    home = Home(path.resolve(), card, config)
    again = f"jq --raw-output .invite.ca INVITATION > {home.authority}"
    read_authority(home.authority, hint=f"it is in the invitation as well: {again}")
    require_node_key(home.key)
    return home
