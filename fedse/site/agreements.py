"""What a site has agreed to: amendments that it was sent, and those that it accepted.

A signed amendment is kept as it came. It counts here once the owner, or the site's rules within
their bounds, accepted it, which is one small file beside it; without that the site goes on with
what it accepted before. Nothing in an amendment reaches the site's rules or its own settings.
"""

from pathlib import Path

from fedse.adapters.base import is_name, spec_of
from fedse.config.agreement import Agreement, SettingChange, amended, changes_between
from fedse.config.schema import Config
from fedse.errors import ConfigError, MachineError, StoreError, boundary
from fedse.ledger.agreements import note_own
from fedse.ledger.entries import Decider
from fedse.site.rules import SiteRules, read_rules
from fedse.store.agreements import (
    agreement_file,
    agreements_in,
    base_in,
    holding,
    keep_base,
)
from fedse.store.files import from_backup, write_durably
from fedse.types import Clock, Record

ACCEPTED = ".accepted"
LAST = 1 << 62
"""After every round, so that the newest amendment holds."""


class Acceptance(Record):
    """That a site has accepted an amendment."""

    document: str
    """Digest of what was accepted."""
    by: Decider


def accept(
    home: Path, client: str, config: Config, number: int, *, base: str, clock: Clock
) -> Agreement:
    """The owner has accepted the amendment; from its round on the site works by it.

    `config` is what holds here now.
    """
    known = {one.number: one for one in agreements_in(home)}
    if number not in known:
        raise ConfigError(
            f"there is no agreement {number} here, known are: {', '.join(map(str, known)) or '-'}",
            hint=f"fedse site agreement --home {home}",
        )
    terms = known[number]
    after = config_with(home, config, terms, base=base)
    if why := against_rules(after, terms, read_rules(home / "policy.toml")):
        raise ConfigError(
            f"agreement {number}: {why}",
            hint=f"change {home / 'policy.toml'}, or give --base FOLDER, your copy of {terms.base}",
        )
    keep_acceptance(home, terms, "owner", base=after.model.base)
    note_own(home, client, terms, "owner", clock=clock)
    return terms


def config_in(home: Path, config: Config, round: int) -> Config:
    """The experiment as this site works on it in a round: `config` with what it has accepted."""
    accepted = [one for one in agreements_in(home) if acceptance(home, one)]
    terms = holding(accepted, round)
    return config_with(home, config, terms) if terms else config


def proposed(home: Path) -> list[Agreement]:
    """The amendments that wait for the owner: after the newest that was accepted."""
    known = agreements_in(home)
    done = max((one.number for one in known if acceptance(home, one)), default=0)
    return [one for one in known if one.number > done]


def what_changes(home: Path, config: Config, terms: Agreement) -> list[SettingChange]:
    """What an amendment would change of what holds here now."""
    return changes_between(config, config_with(home, config, terms))


def acceptance(home: Path, terms: Agreement) -> Acceptance | None:
    """Of exactly this document; None = it was not accepted."""
    file = agreement_file(home, terms.number).with_suffix(ACCEPTED)
    if not file.is_file():
        return None
    with boundary(StoreError, f"{file}", hint=from_backup(file)):
        given = Acceptance.model_validate_json(file.read_bytes())
    return given if given.document == terms.digest else None


def against_rules(after: Config, terms: Agreement, rules: SiteRules) -> str:
    """What the site's own rules, or its machine, forbid of the settings; empty = nothing."""
    if after.run.name not in rules.experiments:
        return f"the experiment {after.run.name!r} is not in your `experiments`"
    try:
        spec = spec_of(after)
    except MachineError as error:
        return f"the base model {terms.base} is not here: {error}"
    if spec.identity != terms.spec:
        return f"{after.model.base} here is not the base model {terms.base}"
    if spec.nbytes > rules.max_bytes_up:
        return f"an adapter would have {spec.nbytes} bytes, max_bytes_up is {rules.max_bytes_up}"
    return ""


def config_with(home: Path, config: Config, terms: Agreement, *, base: str = "") -> Config:
    """`config` with what the amendment says, whether it was accepted or not.

    The base model is at `base`, else where it was said to be, else under its name, if it is one
    that means the same on every machine.
    """
    named = terms.base if is_name(terms.base) else ""
    where = base or base_in(home, terms.number) or (named if terms.spec != _spec(config) else "")
    return amended(config, terms, f"agreement {terms.number} in {home}", base=where)


def _spec(config: Config) -> str:
    """Of the base model that is here; empty = it is not."""
    try:
        return spec_of(config).identity
    except MachineError:
        return ""


def keep_acceptance(home: Path, terms: Agreement, by: Decider, *, base: str) -> None:
    """The site works by the amendment from its round on, with the base model at `base`."""
    given = Acceptance(document=terms.digest, by=by)
    keep_base(home, terms.number, base)
    file = agreement_file(home, terms.number).with_suffix(ACCEPTED)
    write_durably(file, given.model_dump_json().encode())
