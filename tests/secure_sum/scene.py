"""One sum among toy members, every message through its bytes; members leave before a stage."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedse.ledger.keys import Signer
from fedse.secure_sum import member as members
from fedse.secure_sum.combine import (
    SumPlan,
    plan_sum,
    take_masks_away,
    unmasking,
    with_confirmations,
    with_mail,
    with_survivors,
)
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.member import MemberState
from fedse.secure_sum.messages import (
    Confirmations,
    Revealed,
    SealedBundle,
    ShareMail,
    Survivors,
    from_bytes,
    masked_from_bytes,
    masked_to_bytes,
    to_bytes,
)
from fedse.secure_sum.roster import Announcement, Confirmation, Roster, SumTerms

SIZE = 40
NAMES = tuple("abcdefghijkl")
STAGES = ("keys", "shares", "masked", "survivors", "unmask")


@cache
def signer_of(name: str) -> Signer:
    key = Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))
    return Signer(key.public_key().public_bytes_raw().hex(), key.sign)


DIRECTORY = {name: signer_of(name).public for name in NAMES}


def terms_of(count: int, *, size: int = SIZE, round: int = 1, least: int = 3) -> SumTerms:
    return SumTerms(
        experiment="toy",
        round=round,
        agreed="0" * 64,
        adapter="1" * 64,
        members=NAMES[:count],
        size=size,
        bound=8.0,
        least=least,
    )


def draws(seed: int) -> members.Draw:
    return np.random.default_rng(seed).bytes


def updates_of(names: Sequence[str], *, size: int = SIZE, seed: int = 0) -> dict[str, Whole]:
    """Encoded updates from the whole range that the bound allows."""
    draw = np.random.default_rng(seed)
    return {
        name: draw.integers(-(2**27), 2**27, size).astype(np.int32).view(np.uint32)
        for name in names
    }


def clear_sum(updates: Mapping[str, Whole], names: Collection[str]) -> Whole:
    return np.sum([updates[name] for name in sorted(names)], axis=0, dtype=np.uint32)


class Played(NamedTuple):
    """A sum that came to its end, and all that the server saw of it."""

    total: Whole
    plan: SumPlan
    states: dict[str, MemberState]
    masked: dict[str, Whole]
    reveals: dict[str, Revealed]


def sent(message: object, kind: type) -> object:
    return from_bytes(kind, to_bytes(message))


def play(
    terms: SumTerms,
    updates: Mapping[str, Whole],
    gone: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
    blocks: Mapping[str, Sequence[str]] | None = None,
) -> Played:
    """The sum where `gone` names the stage before which a member leaves."""
    left = {name: STAGES.index(stage) for name, stage in (gone or {}).items()}

    def here(stage: str, names: Sequence[str]) -> list[str]:
        return [n for n in names if left.get(n, len(STAGES)) > STAGES.index(stage)]

    states = {
        name: members.announce(
            terms, name, signer_of(name), draw=draws(seed + i), blocks=(blocks or {}).get(name, ())
        )
        for i, name in enumerate(here("keys", terms.members))
    }
    told = [sent(state.announcement, Announcement) for state in states.values()]
    plan = plan_sum(told, terms, DIRECTORY)
    bundles = {}
    for name in here("shares", plan.roster.names):
        states[name] = members.share_out(states[name], sent(plan.roster, Roster), DIRECTORY)
        bundles[name] = sent(states[name].bundle, SealedBundle)
    plan = with_mail(plan, bundles)
    total, masked = np.zeros(terms.size, dtype=np.uint32), {}
    for name in here("masked", plan.senders):
        states[name] = members.take_shares(states[name], sent(plan.mail, ShareMail))
        data = masked_to_bytes(members.masked(states[name], updates[name]))
        masked[name] = masked_from_bytes(data, terms.size)
        total += masked[name]
    plan = with_survivors(plan, masked)
    told = []
    for name in here("survivors", plan.survivors):
        survivors = sent(Survivors(names=plan.survivors), Survivors)
        states[name] = members.confirm_survivors(states[name], survivors, signer_of(name))
        told.append(sent(states[name].confirmation, Confirmation))
    plan = with_confirmations(plan, told, DIRECTORY)
    reveals = {}
    for name in here("unmask", [one.member for one in told]):
        confirmations = sent(plan.confirmations, Confirmations)
        states[name] = members.unmask(states[name], confirmations, DIRECTORY)
        reveals[name] = sent(members.revealed(states[name]), Revealed)
    take_masks_away(total, unmasking(plan, reveals))
    return Played(total, plan, states, masked, reveals)
