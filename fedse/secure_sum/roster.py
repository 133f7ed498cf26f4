"""What the members of a sum agree on, and who they are: signed by each, checked by each.

The server passes on the announcements but cannot make one: each is signed with its member's key,
and every member has a directory of all members' public keys that did not come with the round.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import not_
from typing import Annotated, Any

from pydantic import Field

from fedse.blocks import span_of
from fedse.config.combinable import LEAST_MEMBERS, least_in_sum
from fedse.config.schema import Config
from fedse.errors import WireError
from fedse.ledger.keys import Signer, signed_by
from fedse.secure_sum.fixed_point import FixedPoint
from fedse.secure_sum.key_agreement import PROTOCOL, require_usable
from fedse.types import CLIENT_NAME, AdapterSpec, Record, canonical_json

Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
Name = Annotated[str, Field(pattern=CLIENT_NAME)]
Block = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+-]*$")]
Directory = Mapping[str, str]
"""The raw Ed25519 public key of every member, in hex."""


class SumBlock(Record):
    """A part of the adapter that not every member has an update of."""

    name: Block
    size: int


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
    blocks: Annotated[tuple[SumBlock, ...], Field(exclude_if=not_)] = ()
    """In their order in an update; empty = it is one, and every member has all of it."""
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

    @property
    def spans(self) -> dict[str, slice]:
        """Where each block is in an update."""
        ends = [0, *accumulate(block.size for block in self.blocks)]
        return {one.name: slice(*ab) for one, ab in zip(self.blocks, pairwise(ends), strict=True)}


def sum_terms(config: Config, part: AdapterSpec, *, round: int, adapter: str) -> SumTerms:
    """The terms of a round's sum, from what a member or the server has agreed to itself.

    `part` is the layout of an update. A step adds up gradients, and divides by no number of
    members, so there is nothing to tell apart.
    """
    spans = {} if config.step.on else {block: span_of(part, block) for block in part.blocks}
    ordered = sorted(spans, key=lambda block: spans[block].start)
    return SumTerms(
        experiment=config.run.name,
        round=round,
        agreed=config.agreed_digest(),
        adapter=adapter,
        members=tuple(sorted(config.members)),
        size=part.size,
        bound=config.aggregate.secure_bound,
        blocks=tuple(SumBlock(name=b, size=spans[b].stop - spans[b].start) for b in ordered),
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
    blocks: Annotated[tuple[Block, ...], Field(exclude_if=not_)] = ()
    """Those that it has an update of, sorted; empty = an update has no blocks."""
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
    signer: Signer,
    member: str,
    terms: SumTerms,
    *,
    channel: str,
    mask: str,
    commitment: str,
    blocks: Sequence[str] = (),
) -> Announcement:
    facts: dict[str, Any] = {
        "member": member,
        "terms": terms.digest,
        "channel": channel,
        "mask": mask,
        "commitment": commitment,
        **({"blocks": sorted(blocks)} if blocks else {}),
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
    known = {block.name for block in terms.blocks}
    if list(one.blocks) != sorted({*one.blocks} & known) or bool(one.blocks) != bool(known):
        raise WireError(f"{one.member} announced other blocks than the adapter has")


def summed_blocks(roster: Roster, senders: Collection[str], terms: SumTerms) -> tuple[str, ...]:
    """The blocks that enough of the senders have an update of; of the others nothing is sent."""
    by_name = roster.by_name
    having = Counter(block for name in senders for block in by_name[name].blocks)
    return tuple(one.name for one in terms.blocks if having[one.name] >= terms.least)


def require_hidden(
    roster: Roster, senders: Collection[str], survivors: Collection[str], terms: SumTerms
) -> None:
    """Of no block the sum is one of fewer updates than any sum is."""
    left = summed_blocks(roster, survivors, terms)
    if lost := sorted({*summed_blocks(roster, senders, terms)} - {*left}):
        raise WireError(
            f"fewer than {terms.least} of the survivors have an update of block {lost[0]}"
        )


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
