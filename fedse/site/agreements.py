"""What a site has agreed to: amendments that it was sent, and those that it accepted.

A signed amendment is kept as it came. It counts here once the owner, or the site's rules within
their bounds, accepted it, which is one small file beside it; without that the site goes on with
what it accepted before. Nothing in an amendment reaches the site's rules or its own settings.
"""

from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.config.agreement import Agreement, SettingChange, amended, changes_between
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.ledger.agreements import note_own
from fedse.ledger.entries import Decider
from fedse.site.rules import SiteRules, read_rules
from fedse.store.agreements import agreement_file, agreements_in, holding
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
    base: str = ""
    """Where the base model is, if it is another one than before."""


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
    terms, given = known[number], Acceptance(document=known[number].digest, by="owner", base=base)
    after = config_with(home, config, terms, given)
    if why := against_rules(after, read_rules(home / "policy.toml")):
        raise ConfigError(f"agreement {number}: {why}", hint=f"change {home / 'policy.toml'} first")
    if spec_of(after).identity != terms.spec:
        raise ConfigError(
            f"agreement {number} is about the base model {terms.base}, {after.model.base} here is "
            "another: other weights, tokenizer or layout",
            hint=f"add --base FOLDER: the folder with your copy of {terms.base}",
        )
    keep_acceptance(home, terms, given)
    note_own(home, client, terms, "owner", clock=clock)
    return terms


def config_in(home: Path, config: Config, round: int) -> Config:
    """The experiment as this site works on it in a round: `config` with what it has accepted."""
    accepted = [one for one in agreements_in(home) if acceptance(home, one)]
    terms = holding(accepted, round)
    return config_with(home, config, terms, acceptance(home, terms)) if terms else config


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


def against_rules(after: Config, rules: SiteRules) -> str:
    """What the site's own rules forbid of the settings; empty = nothing."""
    if after.run.name not in rules.experiments:
        return f"the experiment {after.run.name!r} is not in your `experiments`"
    size = spec_of(after).nbytes
    if size > rules.max_bytes_up:
        return f"an adapter would have {size} bytes, your max_bytes_up is {rules.max_bytes_up}"
    return ""


def config_with(
    home: Path, config: Config, terms: Agreement, given: Acceptance | None = None
) -> Config:
    """`config` with what the amendment says, whether it was accepted or not."""
    source = f"agreement {terms.number} in {home}"
    return amended(config, terms, source, base=given.base if given else "")


def keep_acceptance(home: Path, terms: Agreement, given: Acceptance) -> None:
    """The site works by the amendment from its round on."""
    file = agreement_file(home, terms.number).with_suffix(ACCEPTED)
    write_durably(file, given.model_dump_json().encode())
