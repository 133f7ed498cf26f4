"""`fedse federation amend` and `fedse site agreement`: change what is agreed on, and consent."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fedse.cli.approvals import As, Key, approved
from fedse.cli.federation_options import HERE, Folder, require_flower
from fedse.cli.run import Set
from fedse.cli.site_options import HERE as SITE
from fedse.cli.site_options import HomeOption, opened
from fedse.config.agreement import BASE_SINCE, Agreement, SettingChange, outside
from fedse.errors import ConfigError
from fedse.federation.security import note
from fedse.site.agreements import (
    accept,
    acceptance,
    against_rules,
    config_with,
    proposed,
    what_changes,
)
from fedse.site.rules import read_rules
from fedse.store.agreements import agreements_in
from fedse.types import digest_of

if TYPE_CHECKING:
    from fedse.federation.home import Home

Names = Annotated[list[str], Parameter(help="A site; may be repeated.", show_default=False)]


def amend(
    *,
    dir_: Folder = HERE,
    set_: Set = [],  # noqa: B006  only read
    add: Names = [],  # noqa: B006  only read
    remove: Names = [],  # noqa: B006  only read
    from_round: Annotated[
        int | None, Parameter(help="The first round it holds for; unset = as soon as possible.")
    ] = None,
    reason: Annotated[str, Parameter(help="Why; the owners of the sites read it.")],
    as_: As = None,
    key: Key = None,
) -> None:
    """Sign an amendment of what the members agreed on; the next round shows it to the sites.

    It holds from its round on for those who accept it. A site that has not accepted it by then is
    left out, and takes part again in the first round after it has.

    Example: fedse federation amend --set train.lr=1e-4 --reason "the loss jumped"
    """
    require_flower()
    from fedse.federation.amend import Draft
    from fedse.federation.amend import amend as amend_federation
    from fedse.federation.folder import open_federation

    if not reason.strip():
        raise ConfigError("the owners of the sites read --reason, and it is empty")
    draft, federation = Draft(set_, add, remove, from_round, reason), open_federation(dir_)
    with approved(federation, "amend", digest_of(draft), as_, key) as now:
        if not now:
            return
        terms, changes = amend_federation(federation, draft, clock=time.time)
    print("\n".join(agreement_lines(terms, changes)))
    for name in add:
        print(f"next       fedse federation invite {name} --dir {dir_}")


def agreement(
    *,
    home: HomeOption = SITE,
    accept_: Annotated[
        int | None, Parameter(name="--accept", help="The number of the amendment to accept.")
    ] = None,
    base: Annotated[
        str, Parameter(help="Folder of the base model, if it is another one than before.")
    ] = "",
) -> None:
    """Show what this site has agreed to and what waits for your consent, or accept it.

    Example: fedse site agreement --accept 2
    """
    site = opened(home)
    if accept_ is None:
        print("\n".join(consent_lines(site, home)))
        return
    whole = str(Path(base).expanduser().resolve()) if base else ""
    terms = accept(site.path, site.card.site, site.config, accept_, base=whole, clock=time.time)
    note(site.path, "agreement.accepted", clock=time.time)
    print(f"accepted agreement {terms.number}; it holds from round {terms.since} on")


def agreement_lines(terms: Agreement, changes: Sequence[SettingChange]) -> Iterator[str]:
    """An amendment for people: what it changes and what each setting means."""
    yield f"agreement  {terms.number}, from round {terms.since} on: {terms.reason}"
    if any(change.key == BASE_SINCE for change in changes):
        yield f"model      {terms.base}; everyone begins with a new adapter and keeps its episodes"
    for change in changes:
        yield f"changes    {change.line}"
        yield from (f"             {line.strip()}" for line in change.about.splitlines())


def consent_lines(site: "Home", home: Path) -> Iterator[str]:
    """What was accepted here, and what waits for the owner."""
    for terms in agreements_in(site.path):
        if given := acceptance(site.path, terms):
            who = "within the bounds of your rules" if given.by == "rules" else "by you"
            yield f"agreement {terms.number} was accepted {who}, from round {terms.since} on"
    waiting, rules = proposed(site.path), read_rules(site.policy)
    if not waiting:
        yield "nothing waits for your consent"
    for terms in waiting:
        changes = what_changes(site.path, site.config, terms)
        yield from agreement_lines(terms, changes)
        more = ", ".join(one.key for one in outside(changes, rules.accept))
        yield f"waits for  you: `accept` in {site.policy} does not cover {more or 'all of it'}"
        if why := against_rules(config_with(site.path, site.config, terms), terms, rules):
            yield f"not yet    {why}"
        yield f"accept     fedse site agreement --accept {terms.number} --home {home}"
