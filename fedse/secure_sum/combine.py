"""The server's side of a sum: it passes on what members send, adds up, and takes the masks away.

What one member sends wrongly is that member's fault: it counts as gone. With fewer members than the
threshold there is no sum. False shares are found by what the owner of the secret announced, and the
sum is made from the others as long as enough are left.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from fedse.errors import FedSEError, WireError
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.key_agreement import (
    commitment,
    mask_key,
    pair_stream,
    public_half,
    self_stream,
)
from fedse.secure_sum.messages import Confirmations, Revealed, SealedBundle, ShareMail
from fedse.secure_sum.roster import (
    Announcement,
    Confirmation,
    Directory,
    Roster,
    SumTerms,
    is_confirmed,
    require_announced,
    require_enough,
    require_hidden,
    require_roster,
    summed_blocks,
)
from fedse.secure_sum.sharing import recovered
from fedse.secure_sum.streams import add_stream, subtract_stream
from fedse.types import Record


class SumPlan(Record):
    """Who is in a sum, as far as it is decided; what is decided is never decided again."""

    terms: SumTerms
    roster: Roster
    mail: ShareMail | None = None
    survivors: tuple[str, ...] = ()
    confirmations: Confirmations | None = None

    @property
    def senders(self) -> tuple[str, ...]:
        return tuple(sorted(self.mail.bundles)) if self.mail else ()

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """Survivor -> the blocks in which its update is in the sum, if an update has blocks."""
        summed, by_name = summed_blocks(self.roster, self.senders, self.terms), self.roster.by_name
        found = {
            name: tuple(block for block in by_name[name].blocks if block in summed)
            for name in self.survivors
        }
        return found if self.terms.blocks else {}


class Unmasking(NamedTuple):
    """The keys of the streams that are left in the sum of the masked updates."""

    added: tuple[bytes, ...]
    subtracted: tuple[bytes, ...]
    liars: frozenset[str] = frozenset()
    """Who revealed shares that are not those of an announced secret."""


class NoSum(FedSEError):
    """The secret of a member cannot be recovered, so its masks stay in the sum."""

    def __init__(self, dealer: str, missing: int, members: int) -> None:
        super().__init__(f"the shares of {dealer} that members revealed do not fit together")
        self.dealer = dealer
        self.proven = missing > members / 3
        """So many members cannot all be lying when they say that its shares were unreadable."""


def plan_sum(announced: Iterable[Announcement], terms: SumTerms, directory: Directory) -> SumPlan:
    """The roster of those whose announcements are sound; too few of them are a WireError."""
    sound = sorted(announced, key=lambda one: one.member)
    roster = Roster(announcements=tuple(sound))
    require_roster(roster, terms, directory)
    return SumPlan(terms=terms, roster=roster)


def is_sound_announcement(one: Announcement, terms: SumTerms, directory: Directory) -> bool:
    try:
        require_announced(one, terms, directory)
    except WireError:
        return False
    return one.member in terms.members


def is_whole_bundle(bundle: SealedBundle, sender: str, roster: Roster) -> bool:
    """Whether there is something for every other member; what it is only that member can tell."""
    return set(bundle.to) == set(roster.names) - {sender}


def with_mail(plan: SumPlan, bundles: Mapping[str, SealedBundle]) -> SumPlan:
    """Those who sent shares are the senders."""
    require_enough(sorted(bundles), plan.terms, "the list of senders")
    return plan.model_copy(update={"mail": ShareMail(bundles=dict(bundles))})


def with_survivors(plan: SumPlan, names: Iterable[str]) -> SumPlan:
    """Those whose masked updates arrived are the survivors."""
    survivors = tuple(sorted(names))
    require_enough(survivors, plan.terms, "the list of survivors")
    require_hidden(plan.roster, plan.senders, survivors, plan.terms)
    return plan.model_copy(update={"survivors": survivors})


def with_confirmations(
    plan: SumPlan, given: Iterable[Confirmation], directory: Directory
) -> SumPlan:
    """Enough survivors signed the list of survivors."""
    lists = (plan.roster, plan.senders, plan.survivors)
    sound = {one.member: one for one in given if is_confirmed(one, *lists, directory)}
    require_enough(sorted(sound), plan.terms, "the list of those who confirmed the survivors")
    found = Confirmations(given=tuple(sound[name] for name in sorted(sound)))
    return plan.model_copy(update={"confirmations": found})


def is_sound_reveal(told: Revealed, plan: SumPlan) -> bool:
    """Whether nothing was revealed but shares of the right kind; unreadable ones may be missing."""
    gone = set(plan.senders) - set(plan.survivors)
    return set(told.self_seeds) <= set(plan.survivors) and set(told.mask_seeds) <= gone


def unmasking(plan: SumPlan, reveals: Mapping[str, Revealed]) -> Unmasking:
    """The keys that take the masks away, each from a secret that fits what was announced."""
    roster, by_name = plan.roster, plan.roster.by_name
    require_enough(sorted(reveals), plan.terms, "the list of those who revealed shares")
    added: list[bytes] = []
    subtracted: list[bytes] = []
    liars: frozenset[str] = frozenset()
    for name in plan.survivors:
        shares = {one: told.self_seeds.get(name) for one, told in reveals.items()}
        seed, liars = _recovered(plan, name, shares, partial(_is_committed, by_name[name]), liars)
        added.append(self_stream(seed, roster.digest, name))
    for name in sorted(set(plan.senders) - set(plan.survivors)):
        shares = {one: told.mask_seeds.get(name) for one, told in reveals.items()}
        seed, liars = _recovered(plan, name, shares, partial(_is_mask_seed, by_name[name]), liars)
        for other in plan.survivors:
            key = pair_stream(mask_key(seed), by_name[other].mask, roster.digest, (name, other))
            (added if other < name else subtracted).append(key)
    return Unmasking(tuple(added), tuple(subtracted), liars)


def take_masks_away(total: Whole, left: Unmasking) -> None:
    """`total`, the sum of the survivors' masked updates, is the sum of their updates."""
    for key in left.added:
        subtract_stream(total, key)
    for key in left.subtracted:
        add_stream(total, key)


def _is_committed(announced: Announcement, seed: bytes) -> bool:
    return commitment(seed) == announced.commitment


def _is_mask_seed(announced: Announcement, seed: bytes) -> bool:
    return public_half(mask_key(seed)) == announced.mask


def _recovered(
    plan: SumPlan,
    dealer: str,
    shares: Mapping[str, str | None],
    fits: Callable[[bytes], bool],
    liars: frozenset[str],
) -> tuple[bytes, frozenset[str]]:
    """The dealer's secret, and all who are known to have revealed false shares by now."""
    readable = {holder: bytes.fromhex(share) for holder, share in shares.items() if share}
    threshold = plan.terms.threshold
    found = recovered(readable, plan.roster.names, threshold=threshold, fits=fits, distrusted=liars)
    if found is None:
        raise NoSum(dealer, len(shares) - len(readable), len(plan.terms.members))
    return found.secret, liars | found.false
