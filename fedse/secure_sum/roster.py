"""What the members of a sum agree on, and who they are: signed by each, checked by each.

The server passes on the announcements but cannot make one: each is signed with its member's key,
and every member has a directory of all members' public keys that did not come with the round.
"""

from collections.abc import Mapping, Sequence
from operator import not_
from typing import Annotated

from pydantic import Field

from fedse.config.combinable import LEAST_MEMBERS, least_in_sum
from fedse.config.schema import Config
from fedse.errors import WireError
from fedse.ledger.keys import Signer, signed_by
from fedse.secure_sum.fixed_point import FixedPoint
from fedse.secure_sum.key_agreement import PROTOCOL, require_usable
from fedse.types import CLIENT_NAME, Record, canonical_json

Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
Name = Annotated[str, Field(pattern=CLIENT_NAME)]
Directory = Mapping[str, str]
"""The raw Ed25519 public key of every member, in hex."""


class SumTerms(Record):
    """What one sum is: each member makes it from its own settings and from the round's request."""

    experiment: str
    round: int
    agreed: str
    """Digest of the settings that all members share."""
    adapter: str
    """Digest of the global adapter from which the updates begin."""
    members: tuple[Name, ...]
    """All members of the experiment, in sorted order, whether they take part or not."""
    size: int
    """Numbers in an update."""
    bound: float
    """The longest update."""
    least: int = LEAST_MEMBERS
    """No sum is of fewer updates, even if the threshold is lower."""
    summed: Annotated[int, Field(exclude_if=not_)] = 0
    """The most updates that are ever added up, if there are more members than these."""

    @property
    def threshold(self) -> int:
        """How many members every stage needs: more than two thirds of all of them, or `least`.

        Of two groups of so many, more than a third of all members is in both.
        """
        return max(least_in_sum(len(self.members)), self.least)

    @property
    def form(self) -> FixedPoint:
        return FixedPoint(self.bound, self.summed or len(self.members))


def sum_terms(config: Config, *, round: int, adapter: str, size: int) -> SumTerms:
    """The terms of a round's sum, from what a member or the server has agreed to itself."""
    return SumTerms(
        experiment=config.run.name,
        round=round,
        agreed=config.agreed_digest(),
        adapter=adapter,
        members=tuple(sorted(config.members)),
        size=size,
        bound=config.aggregate.secure_bound,
        summed=config.aggregate.secure_members,
    )


class Announcement(Record):
    """The public halves of a member's keys for one sum."""

    member: Name
    terms: Hex32
    """Digest of the terms the member agrees to."""
    channel: Hex32
    mask: Hex32
    commitment: Hex32
    """Of the seed of its self mask."""
    signature: Hex64


class Roster(Record):
    """The members of one sum."""

    announcements: tuple[Announcement, ...]
    """In the order of names."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.member for one in self.announcements)

    @property
    def by_name(self) -> dict[str, Announcement]:
        return {one.member: one for one in self.announcements}


class Confirmation(Record):
    """A member's word on whose updates are in the sum."""

    member: Name
    signature: Hex64


def sign_announcement(
    signer: Signer, member: str, terms: SumTerms, *, channel: str, mask: str, commitment: str
) -> Announcement:
    facts = {
        "member": member,
        "terms": terms.digest,
        "channel": channel,
        "mask": mask,
        "commitment": commitment,
    }
    return Announcement(**facts, signature=signer.sign(_message("keys", facts)).hex())


def require_announced(one: Announcement, terms: SumTerms, directory: Directory) -> None:
    """Usable keys for these terms, signed by the member they name; anything else is a WireError."""
    if one.terms != terms.digest:
        raise WireError(f"{one.member} announced keys for another sum than this one")
    facts = one.model_dump(mode="json", exclude={"signature"})
    if not signed_by(key_of(one.member, directory), _message("keys", facts), one.signature):
        raise WireError(f"the keys of {one.member} are not signed by {one.member}")
    require_usable(one.channel)
    require_usable(one.mask)


def require_roster(roster: Roster, terms: SumTerms, directory: Directory) -> None:
    """Enough different members of the experiment, each with its own signature."""
    names = roster.names
    if list(names) != sorted(set(names)) or not set(names) <= set(terms.members):
        raise WireError("the roster is not a sorted list of different members of the experiment")
    require_enough(names, terms, "the roster")
    for one in roster.announcements:
        require_announced(one, terms, directory)


def require_enough(names: Sequence[str], terms: SumTerms, what: str) -> None:
    """No stage goes on with fewer members than the threshold."""
    if len(set(names)) < terms.threshold:
        raise WireError(
            f"{what} has {len(set(names))} of {len(terms.members)} members, "
            f"{terms.threshold} are needed"
        )


def confirm(
    signer: Signer, member: str, roster: Roster, senders: Sequence[str], survivors: Sequence[str]
) -> Confirmation:
    """The member's signature over who sent shares and whose masked update arrived."""
    signed = signer.sign(_confirmed(roster, senders, survivors))
    return Confirmation(member=member, signature=signed.hex())


def is_confirmed(
    one: Confirmation,
    roster: Roster,
    senders: Sequence[str],
    survivors: Sequence[str],
    directory: Directory,
) -> bool:
    """Whether the member it names, one of the survivors, confirmed exactly these lists."""
    message = _confirmed(roster, senders, survivors)
    return one.member in survivors and signed_by(
        key_of(one.member, directory), message, one.signature
    )


def key_of(member: str, directory: Directory) -> str:
    if member not in directory:
        raise WireError(
            f"there is no public key of {member} in this member's own directory",
            hint="fedse privacy keys NAME=KEY ..., with every member",
        )
    return directory[member]


def _confirmed(roster: Roster, senders: Sequence[str], survivors: Sequence[str]) -> bytes:
    lists = {"roster": roster.digest, "senders": [*senders], "survivors": [*survivors]}
    return _message("survivors", lists)


def _message(purpose: str, facts: Mapping[str, object]) -> bytes:
    """What is signed; a ledger's lines, which the same key signs, do not begin like this."""
    return f"{PROTOCOL} {purpose}\n".encode() + canonical_json(dict(facts))
