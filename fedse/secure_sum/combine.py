"""The server's side of a sum: it passes on what members send, adds up, and takes the masks away.

What one member sends wrongly is that member's fault: it counts as gone. With fewer members than the
threshold there is no sum.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedse.errors import WireError
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
    require_roster,
)
from fedse.secure_sum.sharing import joined
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


class Unmasking(NamedTuple):
    """The keys of the streams that are left in the sum of the masked updates."""

    added: tuple[bytes, ...]
    subtracted: tuple[bytes, ...]


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


def is_whole_reveal(told: Revealed, plan: SumPlan) -> bool:
    """Whether a share of the right kind was revealed for every sender, and no other."""
    gone = set(plan.senders) - set(plan.survivors)
    return set(told.self_seeds) == set(plan.survivors) and set(told.mask_seeds) == gone


def unmasking(plan: SumPlan, reveals: Mapping[str, Revealed]) -> Unmasking:
    """The keys that take the masks away, each from a secret that fits what was announced."""
    terms, roster, by_name = plan.terms, plan.roster, plan.roster.by_name
    require_enough(sorted(reveals), terms, "the list of those who revealed shares")
    added: list[bytes] = []
    subtracted: list[bytes] = []
    for name in plan.survivors:
        shares = {one: told.self_seeds[name] for one, told in reveals.items()}
        seed = _joined(shares, roster, terms)
        _require_fit(name, commitment(seed) == by_name[name].commitment)
        added.append(self_stream(seed, roster.digest, name))
    for name in sorted(set(plan.senders) - set(plan.survivors)):
        shares = {one: told.mask_seeds[name] for one, told in reveals.items()}
        private = mask_key(_joined(shares, roster, terms))
        _require_fit(name, public_half(private) == by_name[name].mask)
        for other in plan.survivors:
            key = pair_stream(private, by_name[other].mask, roster.digest, (name, other))
            (added if other < name else subtracted).append(key)
    return Unmasking(tuple(added), tuple(subtracted))


def take_masks_away(total: Whole, left: Unmasking) -> None:
    """`total`, the sum of the survivors' masked updates, is the sum of their updates."""
    for key in left.added:
        subtract_stream(total, key)
    for key in left.subtracted:
        add_stream(total, key)


def _joined(shares: Mapping[str, str], roster: Roster, terms: SumTerms) -> bytes:
    raw = {holder: bytes.fromhex(share) for holder, share in shares.items()}
    return joined(raw, roster.names, threshold=terms.threshold)


def _require_fit(name: str, fits: bool) -> None:
    if not fits:
        raise WireError(f"the shares that members revealed of {name} do not fit together")
