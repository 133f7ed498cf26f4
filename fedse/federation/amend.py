"""Amend what a federation has agreed on: a signed document, which its sites are shown and accept.

It is written while rounds go on. The next round shows it to the sites, and it holds from its own
round on for those who accepted it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedse._version import __version__
from fedse.adapters.base import spec_of
from fedse.config.agreement import (
    BASE_SINCE,
    ELSEWHERE,
    FIRST,
    Agreement,
    SettingChange,
    changes_between,
    offered_settings,
)
from fedse.config.file import dump_config, parse_config
from fedse.config.methods import with_settings
from fedse.config.schema import ClientSection, Config
from fedse.errors import ConfigError
from fedse.federation.above import require_alone
from fedse.federation.enrolment import Member, with_member, write_list
from fedse.federation.folder import LIST, Federation, changing_list, signing_key, write_nginx
from fedse.ledger.agreements import note_agreement
from fedse.signed import public_hex, signed_text
from fedse.site.consider import AMENDMENT
from fedse.store.agreements import agreement_file, agreements_in, keep_base
from fedse.store.files import write_durably
from fedse.store.run import committed_in
from fedse.store.run_folder import newest_config
from fedse.types import Clock

NOTICE = 2
"""Rounds from the last committed one to the first in which an amendment can hold: the one between
may have begun, and shows it to the sites."""


class Draft(NamedTuple):
    """What a coordinator wants to change."""

    settings: Sequence[str] = ()
    """As "train.lr=1e-4"."""
    add: Sequence[str] = ()
    remove: Sequence[str] = ()
    since: int | None = None
    """None = as soon as possible."""
    reason: str = ""


class Amended(NamedTuple):
    """A signed amendment and what it changes."""

    terms: Agreement
    changes: list[SettingChange]


def amend(federation: Federation, draft: Draft, *, clock: Clock) -> Amended:
    """The amendment is signed, and in the federation's ledger; its new members can be invited."""
    with changing_list(federation.path):
        known, key = agreements_in(federation.run), signing_key(federation)
        number = (known[-1].number if known else FIRST) + 1
        require_alone(federation, newest_config(federation.run))
        before, since = newest_config(federation.run), _since(federation, known, draft.since)
        after = _changed(before, draft)
        if spec_of(after).identity != spec_of(before).identity:
            after = with_settings(after, {BASE_SINCE: since})
        changes = changes_between(before, after)
        _require_change(before, after, changes)
        terms = _terms(federation, after, draft.reason, number, since, int(clock()), key)
        file = agreement_file(federation.run, terms.number)
        file.parent.mkdir(exist_ok=True, mode=0o700)
        keep_base(federation.run, number, after.model.base)
        write_durably(file, signed_text(AMENDMENT, terms.model_dump(mode="json"), key))
        note_agreement(federation.run, terms, clock=clock)
        sites = federation.sites
        for name in {*after.members} - {*sites.members}:
            sites = with_member(sites, name, Member())
        write_list(federation.path / LIST, sites)
        write_nginx(federation, sites=len(sites.members))
    return Amended(terms, changes)


def _changed(config: Config, draft: Draft) -> Config:
    unknown = sorted({*draft.remove} - {*config.members})
    twice = sorted({*draft.add} & {*config.members})
    if unknown or twice:
        wrong = f"{', '.join(unknown)} is no member" if unknown else f"{', '.join(twice)} is one"
        raise ConfigError(f"{wrong}; members are {', '.join(sorted(config.members))}")
    stay = [one for one in config.clients if one.name not in draft.remove]
    new = [ClientSection(name=name, env=ELSEWHERE) for name in draft.add]
    unchecked = config.model_copy(update={"clients": (*stay, *new)})
    return parse_config(dump_config(unchecked), "the amendment", draft.settings)


def _require_change(before: Config, after: Config, changes: Sequence[SettingChange]) -> None:
    if not changes:
        raise ConfigError(
            "nothing that is agreed on would change",
            hint="fedse federation amend --set KEY=VALUE; all keys: fedse config explain",
        )
    if after.run.name != before.run.name:
        raise ConfigError("an experiment keeps its name, as sites store their answers under it")
    merged = {*before.roles.merged_blocks}
    if kept := sorted(merged & {*after.roles.local_blocks}):
        raise ConfigError(
            f"what was merged of {kept[0]!r} is everybody's, so its role cannot be local any more",
            hint="give the role another name: then the adapter begins anew",
        )


def _since(federation: Federation, known: Sequence[Agreement], since: int | None) -> int:
    """The first round for which it holds; after all rounds for which an earlier one was named."""
    notice = committed_in(federation.run) + NOTICE
    soonest = max([notice, *(one.since + 1 for one in known)])
    if since is None:
        return soonest
    if since < soonest:
        raise ConfigError(
            f"it cannot hold from round {since} on, at the earliest from round {soonest}",
            hint=f"fedse federation amend --from-round {soonest}",
        )
    return since


def _terms(
    federation: Federation,
    config: Config,
    reason: str,
    number: int,
    since: int,
    now: int,
    key: Ed25519PrivateKey,
) -> Agreement:
    spec = spec_of(config)
    return Agreement(
        number=number,
        federation=federation.card.name,
        experiment=config.run.name,
        since=since,
        members=tuple(sorted(config.members)),
        settings=offered_settings(config),
        agreed=config.agreed_digest(),
        spec=spec.identity,
        base=spec.base,
        reason=reason,
        fedse=__version__,
        issued=now,
        signer=public_hex(key),
    )
