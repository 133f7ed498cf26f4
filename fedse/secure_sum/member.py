"""A member's side of a sum: five stages, each a function from its state to its next state.

A stage that was answered is answered again in the same way, and never in another: a second list of
members in one round is refused. Otherwise the server could ask for the same sum with and without
one member, and the difference would be that member's update. The state is stored before its answer
leaves (`store/sums.py`), so this also holds after a crash.
"""

from collections.abc import Callable, Sequence

from pydantic import Field

from fedse.errors import FedSEError, WireError
from fedse.faults import Fault
from fedse.ledger.keys import Signer
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.key_agreement import (
    channel_key,
    commitment,
    mask_key,
    pair_stream,
    public_half,
    sealed,
    self_stream,
    unsealed,
)
from fedse.secure_sum.messages import Confirmations, Revealed, SealedBundle, ShareMail, Survivors
from fedse.secure_sum.roster import (
    Announcement,
    Confirmation,
    Directory,
    Roster,
    SumTerms,
    confirm,
    is_confirmed,
    require_enough,
    require_hidden,
    require_roster,
    sign_announcement,
    summed_blocks,
)
from fedse.secure_sum.sharing import SECRET_BYTES, SHARE_BYTES, split
from fedse.secure_sum.streams import add_stream, subtract_stream
from fedse.types import Record

Draw = Callable[[int], bytes]
"""So many bytes that nobody can guess, such as `secrets.token_bytes`."""


class SumRefused(FedSEError):
    """The server asked for something that would tell it more than one sum."""

    exit_code = Fault.OTHER_ROSTER


class HeldShares(Record):
    """One member's shares of another's two secrets, in hex."""

    mask_seed: str
    self_seed: str


class MemberState(Record):
    """All that a member knows of a sum, but its own update; it never leaves the member."""

    terms: SumTerms
    member: str
    channel_secret: str = Field(repr=False)
    mask_seed: str = Field(repr=False)
    self_seed: str = Field(repr=False)
    announcement: Announcement
    roster: Roster | None = None
    bundle: SealedBundle | None = None
    """What was sent to the others, kept because it cannot be made a second time."""
    senders: tuple[str, ...] = ()
    held: dict[str, HeldShares] = Field(default={}, repr=False)
    survivors: tuple[str, ...] = ()
    confirmation: Confirmation | None = None
    unmasked: bool = False


def announce(
    terms: SumTerms, member: str, signer: Signer, *, draw: Draw, blocks: Sequence[str] = ()
) -> MemberState:
    """Stage 1, keys: fresh secrets, and their public halves signed for these terms.

    `blocks` are those that the member has an update of, if an update has blocks.
    """
    channel, mask, own = (draw(SECRET_BYTES * 2), draw(SECRET_BYTES), draw(SECRET_BYTES))
    announcement = sign_announcement(
        signer,
        member,
        terms,
        channel=public_half(channel_key(channel)),
        mask=public_half(mask_key(mask)),
        commitment=commitment(own),
        blocks=blocks,
    )
    return MemberState(
        terms=terms,
        member=member,
        channel_secret=channel.hex(),
        mask_seed=mask.hex(),
        self_seed=own.hex(),
        announcement=announcement,
    )


def share_out(state: MemberState, roster: Roster, directory: Directory) -> MemberState:
    """Stage 2, shares: the roster is accepted, and each other member has sealed shares."""
    if state.roster is not None:
        _require_same("roster", state.roster == roster)
        return state
    require_roster(roster, state.terms, directory)
    if roster.by_name.get(state.member) != state.announcement:
        raise WireError(f"the roster does not have the keys that {state.member} announced")
    names, needed = roster.names, state.terms.threshold
    masks = split(bytes.fromhex(state.mask_seed), names, threshold=needed)
    selves = split(bytes.fromhex(state.self_seed), names, threshold=needed)
    channel, to = channel_key(bytes.fromhex(state.channel_secret)), {}
    for one in roster.announcements:
        if one.member != state.member:
            to[one.member] = sealed(
                channel,
                one.channel,
                roster.digest,
                sender=state.member,
                receiver=one.member,
                plain=masks[one.member] + selves[one.member],
            ).hex()
    own = HeldShares(mask_seed=masks[state.member].hex(), self_seed=selves[state.member].hex())
    changes = {"roster": roster, "bundle": SealedBundle(to=to), "held": {state.member: own}}
    return state.model_copy(update=changes)


def take_shares(state: MemberState, mail: ShareMail) -> MemberState:
    """Stage 3, masked: these and no others share a mask with this member."""
    roster, senders = _roster(state), tuple(sorted(mail.bundles))
    if state.senders:
        _require_same("list of senders", state.senders == senders)
        return state
    if not set(senders) <= set(roster.names) or mail.bundles.get(state.member) != state.bundle:
        raise WireError("the shares are not those of members of the roster, own ones included")
    require_enough(senders, state.terms, "the list of senders")
    channel, held = channel_key(bytes.fromhex(state.channel_secret)), dict(state.held)
    for sender in senders:
        if sender != state.member:
            try:
                plain = unsealed(
                    channel,
                    roster.by_name[sender].channel,
                    roster.digest,
                    sender=sender,
                    receiver=state.member,
                    data=bytes.fromhex(mail.bundles[sender].to.get(state.member, "")),
                )
            except WireError:
                continue  # the shares that others hold may be enough
            mask, own = plain[:SHARE_BYTES].hex(), plain[SHARE_BYTES:].hex()
            held[sender] = HeldShares(mask_seed=mask, self_seed=own)
    return state.model_copy(update={"senders": senders, "held": held})


def masked(state: MemberState, encoded: Whole) -> Whole:
    """The update plus the self mask plus a mask for each other sender, modulo 2^32.

    Of two members, the first by name adds their common mask and the second subtracts it. A block
    that too few of the senders have an update of is zero.
    """
    roster = _roster(state)
    if not state.senders or encoded.size != state.terms.size:
        raise WireError(f"{state.member} has no update of this sum to mask yet")
    total, summed = encoded.copy(), summed_blocks(roster, state.senders, state.terms)
    for block, span in state.terms.spans.items():
        if block not in summed or block not in state.announcement.blocks:
            total[span] = 0
    add_stream(total, self_stream(bytes.fromhex(state.self_seed), roster.digest, state.member))
    private = mask_key(bytes.fromhex(state.mask_seed))
    for sender in state.senders:
        if sender != state.member:
            pair = (state.member, sender)
            key = pair_stream(private, roster.by_name[sender].mask, roster.digest, pair)
            (add_stream if state.member < sender else subtract_stream)(total, key)
    return total


def confirm_survivors(state: MemberState, told: Survivors, signer: Signer) -> MemberState:
    """Stage 4, survivors: the member has signed whose updates are in the sum."""
    survivors = told.names
    if state.survivors:
        _require_same("list of survivors", state.survivors == survivors)
        return state
    sound = list(survivors) == sorted(set(survivors)) and set(survivors) <= set(state.senders)
    if not sound or state.member not in survivors:
        raise WireError("the survivors are not a sorted list of senders, this member among them")
    require_enough(survivors, state.terms, "the list of survivors")
    require_hidden(_roster(state), state.senders, survivors, state.terms)
    signed = confirm(signer, state.member, _roster(state), state.senders, survivors)
    return state.model_copy(update={"survivors": survivors, "confirmation": signed})


def unmask(state: MemberState, told: Confirmations, directory: Directory) -> MemberState:
    """Stage 5, unmask: enough members have signed the list that this member signed."""
    if not state.survivors:
        raise WireError(f"{state.member} has confirmed no list of survivors yet")
    roster, senders, survivors = _roster(state), state.senders, state.survivors
    agreeing = {
        one.member for one in told.given if is_confirmed(one, roster, senders, survivors, directory)
    }
    require_enough(sorted(agreeing), state.terms, "the list of those who confirmed the survivors")
    return state.model_copy(update={"unmasked": True})


def revealed(state: MemberState) -> Revealed:
    """Of each sender one share: of a survivor for its self mask, of another for its pair masks.

    Shares that arrived unreadable are missing.
    """
    if not state.unmasked:
        raise WireError(f"{state.member} has not seen enough confirmations yet")
    gone = _without(state.senders, state.survivors)
    return Revealed(
        self_seeds={n: state.held[n].self_seed for n in state.survivors if n in state.held},
        mask_seeds={n: state.held[n].mask_seed for n in gone if n in state.held},
    )


def _roster(state: MemberState) -> Roster:
    if state.roster is None:
        raise WireError(f"{state.member} has accepted no roster yet")
    return state.roster


def _require_same(what: str, same: bool) -> None:
    if not same:
        raise SumRefused(
            f"a second {what} in one round: two sums of it would tell a single member's update",
            hint="if the server lost its state, this round can no longer be summed",
        )


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    return [name for name in names if name not in others]
