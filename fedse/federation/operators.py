"""Named operators: who may invite, revoke, pardon and amend, and what needs two of them.

Without operators.toml whoever can write to the coordinator's folder may do all of it, and is not
named. With it, such a command needs an operator's private key, and the ledger has the signatures.
Who can write to the folder can still change the list of sites, or this file, with an editor; but
then the ledger has no line for it that an operator signed.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from fedse.errors import ConfigError, boundary
from fedse.federation.enrolment import member_of
from fedse.federation.folder import Federation, hints_name
from fedse.federation.security import EventName, note, refusals_noted
from fedse.ledger.decisions import Action, Decision, OperatorName, Proposal
from fedse.ledger.keys import Signer, public_of, signer_of
from fedse.ledger.writing import Ledger
from fedse.store.files import OWNER_ONLY, write_durably
from fedse.types import Clock, Record

FILE, PENDING = "operators.toml", "approvals"
VALID_SECONDS = 7 * 86_400.0
"""For which a first approval waits for the second."""
EVENTS: dict[Action, EventName] = {
    "invite": "site.invited",
    "revoke": "site.revoked",
    "pardon": "site.pardoned",
    "amend": "agreement.changed",
}


class Operator(Record):
    key: str
    """The public key as PEM text."""
    roles: tuple[Action, ...]
    """What the operator may do."""


class Operators(Record):
    """The file operators.toml."""

    four_eyes: tuple[Action, ...] = ()
    """What needs the approval of two operators."""
    operators: dict[OperatorName, Operator] = Field(min_length=1)


class OperatorKey(NamedTuple):
    """Who gives a command, and the file with the private key."""

    name: str
    file: Path


class Approvals(NamedTuple):
    by: tuple[str, ...]
    """The operators who approved; none where nobody is named."""
    complete: bool
    """Whether it may be done now."""


def read_operators(folder: Path) -> Operators | None:
    """The federation's operators; None = it names none."""
    file = folder / FILE
    if not file.is_file():
        return None
    with boundary(ConfigError, f"{file}", hint="docs/how-to/operate.md has an example"):
        # JSON, because only there strict mode takes a list for a tuple.
        return Operators.model_validate_json(json.dumps(tomllib.loads(file.read_text())))


@contextmanager
def decision(
    federation: Federation, action: Action, subject: str, given: OperatorKey | None, *, clock: Clock
) -> Iterator[Approvals]:
    """Whoever must approve has done so, or the command only counts as one approval.

    What is done inside, if it is complete, is in the ledger afterwards with those who approved.
    """
    folder, known = federation.path, read_operators(federation.path)
    site = None if action == "amend" else subject
    if site is not None:
        with hints_name(folder):
            member_of(federation.sites, site)
    with refusals_noted(folder, "operator.refused", clock=clock):
        made = _signed(federation, known, action, subject, given, clock=clock)
    by = tuple(sorted(made.keys)) if made else ()
    needed = 2 if known and action in known.four_eyes else 1
    if made and len(by) < needed:
        write_durably(_pending(folder, made.proposal), _text(made), mode=OWNER_ONLY)
        note(folder, "approval.waiting", clock=clock, site=site, by=by)
        yield Approvals(by, complete=False)
        return
    yield Approvals(by, complete=True)
    if made:
        _ledger(federation, clock=clock).append("decided", made.model_dump(mode="json"))
        _pending(folder, made.proposal).unlink(missing_ok=True)
    note(folder, EVENTS[action], clock=clock, site=site, by=by)


def _signed(
    federation: Federation,
    known: Operators | None,
    action: Action,
    subject: str,
    given: OperatorKey | None,
    *,
    clock: Clock,
) -> Decision | None:
    """The decision with this operator's signature; None = the federation names no operators."""
    if known is None:
        if given:
            raise ConfigError(
                f"{federation.path} names no operators, so it cannot be told who {given.name} is",
                hint=f"make {federation.path / FILE}, or leave out --as and --key",
            )
        return None
    name, signer = _allowed(known, action, given)
    proposal = Proposal(
        federation=federation.card.fingerprint, action=action, subject=subject, made=int(clock())
    )
    before = _waiting(federation.path, proposal, known)
    if before and _is_on_record(federation, before, clock=clock):
        before = None
    proposal = before.proposal if before else proposal
    return Decision(
        proposal=proposal,
        keys={**(before.keys if before else {}), name: signer.public},
        signatures={
            **(before.signatures if before else {}),
            name: signer.sign(proposal.message).hex(),
        },
    )


def _allowed(known: Operators, action: Action, given: OperatorKey | None) -> tuple[str, Signer]:
    """The operator, who has the role, and the key that the file names; else an error."""
    allowed = [name for name, one in known.operators.items() if action in one.roles]
    who = f"operators with the role {action}: {', '.join(sorted(allowed)) or 'none'}"
    hint = f"fedse federation {action} ... --as NAME --key FILE"
    if given is None:
        raise ConfigError(f"to {action} needs an operator's key; {who}", hint=hint)
    if given.name not in allowed:
        raise ConfigError(f"{given.name} may not {action}; {who}", hint=hint)
    signer = signer_of(given.file)
    if signer.public != _key_of(known, given.name):
        raise ConfigError(f"{given.file} is not the key of {given.name} in {FILE}", hint=hint)
    return given.name, signer


def _key_of(known: Operators, name: str) -> str:
    """An operator's public key, in hex."""
    return public_of(known.operators[name].key.encode(), f"the key of {name} in {FILE}")


def _waiting(folder: Path, asked: Proposal, known: Operators) -> Decision | None:
    """What another operator approved of lately, if that operator still may."""
    file = _pending(folder, asked)
    if not file.is_file():
        return None
    with boundary(ConfigError, f"{file}", hint=f"ask for it again: rm {file}"):
        found = Decision.model_validate_json(file.read_bytes())
        if found.fault:
            raise ValueError(f"it {found.fault}")
    still = all(
        name in known.operators
        and asked.action in known.operators[name].roles
        and _key_of(known, name) == key
        for name, key in found.keys.items()
    )
    same = found.proposal.model_copy(update={"made": asked.made}) == asked
    late = not 0 <= asked.made - found.proposal.made <= VALID_SECONDS
    return found if still and same and not late else None


def _is_on_record(federation: Federation, found: Decision, *, clock: Clock) -> bool:
    """Whether it was done already: a file that somebody kept and put back is no approval."""
    made = found.proposal.model_dump(mode="json")
    return bool(
        _ledger(federation, clock=clock).last(
            "decided",
            naming=f'"made":{found.proposal.made}',
            where=lambda line: line.facts["proposal"] == made,
        )
    )


def _ledger(federation: Federation, *, clock: Clock) -> Ledger:
    return Ledger(federation.run, role="server", name=federation.run.name, clock=clock)


def _pending(folder: Path, proposal: Proposal) -> Path:
    place = folder / PENDING
    place.mkdir(exist_ok=True, mode=0o700)
    return place / f"{proposal.action}-{proposal.subject}.json"


def _text(decision: Decision) -> bytes:
    return decision.model_dump_json(indent=2).encode() + b"\n"
