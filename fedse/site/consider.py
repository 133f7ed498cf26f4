"""A site is shown an amendment: it keeps it, and says whether it is accepted here.

Whoever signed the invitation must have signed the amendment. Nobody else can make a site keep one.
"""

import tomllib
from pathlib import Path

from fedse.config.agreement import Agreement, changes_between, outside
from fedse.errors import WireError
from fedse.ledger.agreements import note_own
from fedse.protocol import YES, SiteReply
from fedse.signed import Paper, fingerprint, signed_fields
from fedse.site.agreements import (
    LAST,
    acceptance,
    against_rules,
    config_in,
    config_with,
    keep_acceptance,
)
from fedse.site.rules import read_rules
from fedse.site.steps import Asked, Next
from fedse.store.agreements import FIELD, agreement_file, agreements_in
from fedse.store.files import write_durably
from fedse.types import ClientStats

AMENDMENT = Paper(
    FIELD, "amendment", b"fedse agreement 1\n", command="fedse federation amend --set KEY=VALUE"
)


def consider(asked: Asked, rest: Next) -> SiteReply:
    """The amendment is kept here; one byte if it is accepted, by now or before, else nothing."""
    site, home = asked.site, asked.site.home
    if asked.policy is None or home is None:
        return SiteReply(ClientStats(), YES)  # a site of the user who amends
    rules = asked.rules or read_rules(asked.policy)
    terms = _received(asked, home)
    if (given := acceptance(home, terms)) is None:
        after = config_with(home, asked.config, terms)
        changes = changes_between(config_in(home, asked.config, LAST), after)
        if outside(changes, rules.accept) or against_rules(after, terms, rules):
            number, now = terms.number, asked.question.round
            asked.emit("agreement.proposed", client=site.client, round=now, number=number)
            return SiteReply(ClientStats())
        keep_acceptance(home, terms, "rules", base=after.model.base)
    by = given.by if given else "rules"
    note_own(home, site.client, terms, by, clock=site.clock)
    return SiteReply(ClientStats(), YES)


def _received(asked: Asked, home: Path) -> Agreement:
    """The amendment beside the question, signed by the site's coordinator, on disk."""
    terms = Agreement.model_validate(signed_fields(AMENDMENT, asked.body, "the amendment"))
    card = tomllib.loads((home / "site.toml").read_text())
    if fingerprint(terms.signer) != card["coordinator"]:
        raise WireError("the amendment is not signed by this site's coordinator")
    named = (terms.federation, terms.experiment)
    if named != (card["federation"], asked.config.run.name):
        raise WireError(f"the amendment is for {' / '.join(named)}")
    if asked.site.client not in terms.members:
        raise WireError("the amendment is for a federation without this site")
    file = agreement_file(home, terms.number)
    known = {one.number: one for one in agreements_in(home)}
    if terms.number not in known or known[terms.number].issued < terms.issued:
        file.parent.mkdir(exist_ok=True, mode=0o700)
        write_durably(file, asked.body)
    elif known[terms.number] != terms:
        raise WireError(f"there is a newer agreement {terms.number} here")
    return terms
