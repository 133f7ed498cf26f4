"""What the server sees of a sum says nothing about a single update, and it cannot ask for more."""

from functools import cache, partial

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.errors import FedSEError, WireError
from fedse.secure_sum import member as members
from fedse.secure_sum.combine import NoSum, is_sound_announcement, unmasking
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.key_agreement import mask_key, pair_stream, self_stream
from fedse.secure_sum.member import MemberState, SumRefused
from fedse.secure_sum.messages import Confirmations, Revealed, SealedBundle, ShareMail, Survivors
from fedse.secure_sum.roster import Roster, confirm, sign_announcement
from fedse.secure_sum.sharing import joined, split
from fedse.secure_sum.streams import add_stream, subtract_stream
from tests.secure_sum.scene import (
    DIRECTORY,
    NAMES,
    SIZE,
    Played,
    clear_sum,
    draws,
    play,
    signer_of,
    terms_of,
    updates_of,
)

SEVEN = NAMES[:7]


@cache
def seven() -> Played:
    """Seven members, of whom five are needed; one leaves after it sent shares."""
    return play(terms_of(7), updates_of(SEVEN), {"g": "masked"})


def stream(key: bytes) -> Whole:
    numbers = np.zeros(SIZE, dtype=np.uint32)
    add_stream(numbers, key)
    return numbers


@pytest.mark.parametrize("update", ["zero", "one", "ramp"])
def test_a_masked_update_is_uniform(update: str):
    """Each of its four bytes: the chi-square of 255 degrees is within six deviations."""
    size = 1 << 16
    made = {"zero": np.zeros(size), "one": np.ones(size), "ramp": np.arange(size)}[update]
    terms = terms_of(3, size=size)
    updates = dict.fromkeys(terms.members, made.astype(np.uint32))
    masked = play(terms, updates, seed=11).masked["a"]
    for byte in masked.view(np.uint8).reshape(-1, 4).T:
        counts = np.bincount(byte, minlength=256)
        chi = float(np.sum((counts - size / 256) ** 2) / (size / 256))
        assert abs(chi - 255) < 6 * (2 * 255) ** 0.5


def test_the_masks_do_not_depend_on_the_update():
    """So a masked update is the update moved by something uniform."""
    state, (one, other) = seven().states["a"], updates_of("ab").values()
    moved = members.masked(state, one) - members.masked(state, other)
    assert np.array_equal(moved, one - other)


def residual(played: Played, member: str, coalition: set[str]) -> Whole:
    """A survivor's masked update without all masks that server and coalition know together."""
    plan, states, left = played.plan, played.states, played.masked[member].copy()
    seed = bytes.fromhex(states[member].self_seed)  # the server has it, from five shares
    subtract_stream(left, self_stream(seed, plan.roster.digest, member))
    for other in {*coalition, *(set(plan.senders) - set(plan.survivors))} - {member}:
        sign = subtract_stream if member < other else add_stream
        sign(left, pair(states[other], member))
    return left


def pair(state: MemberState, other: str) -> bytes:
    assert state.roster
    private, public = mask_key(bytes.fromhex(state.mask_seed)), state.roster.by_name[other].mask
    return pair_stream(private, public, state.roster.digest, (state.member, other))


def test_what_a_coalition_below_the_threshold_sees_fits_any_other_updates_of_the_same_sum():
    """Four of seven and the server, with every key they have; three members are honest.

    For other updates with the same sum there are masks between the three that nobody else knows,
    with which all that was seen would have been the same.
    """
    played, coalition, (u, v, w) = seven(), {"d", "e", "f", "g"}, "abc"
    updates, other = updates_of(SEVEN), updates_of("abc", seed=5)
    other[u] = clear_sum(updates, "abc") - other[v] - other[w]
    seen = {one: residual(played, one, coalition) for one in (u, v, w)}
    uv, uw, vw = (stream(pair(played.states[x], y)) for x, y in ((u, v), (u, w), (v, w)))
    assert np.array_equal(seen[u], updates[u] + uv + uw)
    # Other masks for other updates:
    uv, uw = uv + other[v] - updates[v], uw + other[w] - updates[w]
    assert np.array_equal(seen[u], other[u] + uv + uw)
    assert np.array_equal(seen[v], other[v] - uv + vw)
    assert np.array_equal(seen[w], other[w] - uw - vw)
    assert all(not np.any(other[one] == updates[one]) for one in (u, v, w))


def test_a_single_masked_update_before_unmasking_fits_every_update():
    """Even if the server had all pair masks: the self mask alone hides it."""
    played, other = seven(), updates_of("a", seed=9)["a"]
    own = stream(
        self_stream(bytes.fromhex(played.states["a"].self_seed), played.plan.roster.digest, "a")
    )
    pairs = played.masked["a"] - own - updates_of(SEVEN)["a"]
    instead = own + updates_of(SEVEN)["a"] - other
    assert np.array_equal(other + instead + pairs, played.masked["a"])


def test_one_share_less_than_needed_fits_every_secret():
    """The share that would make them any other secret exists: addition of places moves zero.

    In GF(2^128) the polynomial at place x is that of the places moved by x, at 0.
    """
    secret, claimed = bytes(range(16)), bytes(16)
    shares = split(secret, SEVEN, threshold=5)
    known = {name: shares[name] for name in SEVEN[:4]}
    with pytest.raises(WireError, match="4 shares of a secret, 5 are needed"):
        joined(known, SEVEN, threshold=5)
    from Crypto.Protocol.SecretSharing import Shamir

    missing = 5
    moved = [(place ^ missing, share) for place, share in enumerate(known.values(), start=1)]
    fitting = Shamir.combine([*moved, (missing, claimed)])
    assert fitting != shares["e"]
    assert joined({**known, "e": fitting}, SEVEN, threshold=5) == claimed
    assert joined({**known, "e": shares["e"]}, SEVEN, threshold=5) == secret
    assert joined(dict([*shares.items()][2:]), SEVEN, threshold=5) == secret


def test_of_each_member_one_secret_is_revealed_and_never_both():
    played = seven()
    for told in played.reveals.values():
        assert set(told.self_seeds) == set("abcdef")
        assert set(told.mask_seeds) == {"g"}


def without(roster: Roster, name: str) -> Roster:
    return Roster(announcements=tuple(o for o in roster.announcements if o.member != name))


def test_a_second_list_of_members_is_refused_at_every_stage():
    """The difference of two sums, with and without one member, would be its update."""
    played, mail = seven(), seven().plan.mail
    assert mail
    fewer = ShareMail(bundles={n: b for n, b in mail.bundles.items() if n != "c"})
    for state in played.states.values():
        if not state.survivors:
            continue
        again = members.share_out(state, played.plan.roster, DIRECTORY)
        assert again == state
        assert members.take_shares(state, mail) == state
        told = Survivors(names=played.plan.survivors)
        assert members.confirm_survivors(state, told, signer_of(state.member)) == state
        with pytest.raises(SumRefused, match="a second roster in one round"):
            members.share_out(state, without(played.plan.roster, "c"), DIRECTORY)
        with pytest.raises(SumRefused, match="a second list of senders"):
            members.take_shares(state, fewer)
        shorter = Survivors(names=tuple(n for n in state.survivors if n != "c"))
        with pytest.raises(SumRefused, match="a second list of survivors"):
            members.confirm_survivors(state, shorter, signer_of(state.member))


def test_a_list_that_not_enough_members_signed_reveals_nothing():
    """One member is told of other survivors than the others: nobody else has signed that list."""
    played = seven()
    told = Survivors(names=tuple("abcdf"))
    state = played.states["a"].model_copy(update={"survivors": (), "unmasked": False})
    state = members.confirm_survivors(state, told, signer_of("a"))
    assert state.confirmation
    given = (state.confirmation, *(played.plan.confirmations or Confirmations(given=())).given)
    with pytest.raises(WireError, match="has 1 of 7 members, 5 are needed"):
        members.unmask(state, Confirmations(given=given), DIRECTORY)
    # Nor does one signature count for several members.
    forged = [state.confirmation.model_copy(update={"member": name}) for name in "bcdf"]
    with pytest.raises(WireError, match="has 1 of 7 members"):
        members.unmask(state, Confirmations(given=(state.confirmation, *forged)), DIRECTORY)
    with pytest.raises(WireError, match="not seen enough confirmations"):
        members.revealed(state)


def announced(count: int = 4) -> dict[str, MemberState]:
    terms = terms_of(count)
    return {n: members.announce(terms, n, signer_of(n), draw=draws(3)) for n in terms.members}


def roster_of(states: dict[str, MemberState], **instead: object) -> Roster:
    given = {name: state.announcement for name, state in states.items()} | instead
    return Roster(announcements=tuple(given[name] for name in sorted(given)))


def test_the_server_cannot_put_keys_of_its_own_in_place_of_a_members():
    states = announced()
    fresh = members.announce(terms_of(4), "b", signer_of("a"), draw=draws(8)).announcement
    own = states["b"].announcement
    replaced = {
        "by a key of the server": own.model_copy(update={"mask": fresh.mask}),
        "channel": own.model_copy(update={"channel": fresh.channel}),
        "commitment": own.model_copy(update={"commitment": fresh.commitment}),
        "signed by another": fresh,
    }
    for forged in replaced.values():
        with pytest.raises(WireError, match="the keys of b are not signed by b"):
            members.share_out(states["a"], roster_of(states, b=forged), DIRECTORY)
    earlier = members.announce(terms_of(4, round=2), "b", signer_of("b"), draw=draws(3))
    with pytest.raises(WireError, match="b announced keys for another sum"):
        members.share_out(states["a"], roster_of(states, b=earlier.announcement), DIRECTORY)
    other = terms_of(4).model_copy(update={"adapter": "2" * 64})
    misled = members.announce(other, "b", signer_of("b"), draw=draws(3)).announcement
    with pytest.raises(WireError, match="b announced keys for another sum"):
        members.share_out(states["a"], roster_of(states, b=misled), DIRECTORY)
    mine = members.announce(terms_of(4), "a", signer_of("a"), draw=draws(9)).announcement
    with pytest.raises(WireError, match="does not have the keys that a announced"):
        members.share_out(states["a"], roster_of(states, a=mine), DIRECTORY)
    known = {name: key for name, key in DIRECTORY.items() if name != "b"}
    with pytest.raises(WireError, match="no public key of b"):
        members.share_out(states["a"], roster_of(states), known)


def test_a_roster_of_too_few_or_of_strangers_is_refused():
    states = announced()
    share = partial(members.share_out, states["a"], directory=DIRECTORY)
    with pytest.raises(WireError, match="has 2 of 4 members, 3 are needed"):
        share(roster=without(without(roster_of(states), "d"), "c"))
    stranger = members.announce(terms_of(4), "e", signer_of("e"), draw=draws(1)).announcement
    with pytest.raises(WireError, match="different members of the experiment"):
        share(roster=roster_of(states, e=stranger))
    twice = roster_of(states).announcements
    with pytest.raises(WireError, match="different members of the experiment"):
        share(roster=Roster(announcements=(*twice, twice[-1])))


def test_shares_that_were_changed_or_are_for_another_are_not_held():
    states = announced()
    roster = roster_of(states)
    states = {n: members.share_out(s, roster, DIRECTORY) for n, s in states.items()}
    bundles = {name: state.bundle for name, state in states.items() if state.bundle}
    assert members.take_shares(states["a"], ShareMail(bundles=bundles)).senders == tuple("abcd")
    to = bundles["b"].to
    flipped = f"{int(to['a'], 16) ^ 1:096x}"
    for wrong in ({**to, "a": flipped}, {**to, "a": to["c"]}, {**bundles["c"].to}):
        mail = ShareMail(bundles={**bundles, "b": SealedBundle(to=wrong)})
        taken = members.take_shares(states["a"], mail)
        assert (taken.senders, set(taken.held)) == (tuple("abcd"), set("acd"))


FALSE = "0" * 32


def lying(played: Played, *liars: str) -> dict[str, Revealed]:
    """What was revealed, with false shares from some members."""
    return {
        name: Revealed(
            self_seeds=dict.fromkeys(told.self_seeds, FALSE),
            mask_seeds=dict.fromkeys(told.mask_seeds, FALSE),
        )
        if name in liars
        else told
        for name, told in played.reveals.items()
    }


@pytest.mark.parametrize(("liar", "named"), [("a", {"a"}), ("f", set())])
def test_false_shares_of_one_member_do_not_matter(liar: str, named: set[str]):
    """Five shares are needed and used: those of `f`, the sixth, are not looked at."""
    played = seven()
    honest, found = (unmasking(played.plan, r) for r in (played.reveals, lying(played, liar)))
    assert found == honest._replace(liars=frozenset(named))


def test_a_member_that_lies_about_one_other_is_found_too():
    played = seven()
    told = dict(played.reveals)
    told["a"] = told["a"].model_copy(update={"mask_seeds": {"g": FALSE}})
    assert unmasking(played.plan, told).liars == {"a"}


def test_more_false_shares_than_can_be_spared_give_no_sum_and_prove_nothing():
    played = seven()
    with pytest.raises(NoSum, match="the shares of a that members revealed do not fit") as found:
        unmasking(played.plan, lying(played, "a", "b"))
    assert not found.value.proven


def test_a_dealer_whose_shares_a_third_of_the_members_cannot_read_is_proven_to_lie():
    played = seven()
    unreadable = {
        name: told.model_copy(
            update={"self_seeds": {n: s for n, s in told.self_seeds.items() if n != "b"}}
        )
        for name, told in played.reveals.items()
        if name != "b"
    }
    with pytest.raises(NoSum) as found:
        unmasking(played.plan, {**unreadable, "b": played.reveals["b"]})
    assert (found.value.dealer, found.value.proven) == ("b", True)


def test_keys_with_which_every_secret_is_the_same_are_no_announcement():
    terms, signer = terms_of(4), signer_of("a")
    weak = sign_announcement(
        signer, "a", terms, channel="00" * 32, mask="00" * 32, commitment="11" * 32
    )
    assert not is_sound_announcement(weak, terms, DIRECTORY)


def test_no_stage_can_be_left_out():
    state, signer = announced()["a"], signer_of("a")
    roster = roster_of(announced())
    shared = members.share_out(state, roster, DIRECTORY)
    steps = {
        "no roster": lambda: members.take_shares(state, ShareMail(bundles={})),
        "no update": lambda: members.masked(shared, updates_of("a")["a"]),
        "sorted list of senders": lambda: members.confirm_survivors(
            shared, Survivors(names=("a", "b", "c")), signer
        ),
        "no list of survivors": lambda: members.unmask(
            shared,
            Confirmations(given=(confirm(signer, "a", roster, ("a",), ("a",)),)),
            DIRECTORY,
        ),
        "not seen enough": lambda: members.revealed(shared),
    }
    for reason, step in steps.items():
        with pytest.raises(FedSEError, match=reason):
            step()


def test_a_state_does_not_show_its_secrets_where_it_is_printed():
    state = seven().states["a"]
    for secret in (state.mask_seed, state.self_seed, state.channel_secret):
        assert secret not in repr(state)
    assert state.held["b"].self_seed not in repr(state)
