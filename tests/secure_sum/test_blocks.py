"""Sums of members that do not all have the same blocks: no block is ever the update of a few."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.errors import WireError
from fedse.secure_sum.combine import plan_sum
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.member import announce
from fedse.secure_sum.roster import SumBlock, SumTerms
from tests.secure_sum.scene import (
    DIRECTORY,
    NAMES,
    STAGES,
    clear_sum,
    draws,
    play,
    signer_of,
    terms_of,
    updates_of,
)

BLOCKS = ("act", "check", "plan")
SIZE = 10
subsets = st.lists(st.sampled_from(BLOCKS), unique=True, min_size=1)


def terms(count: int) -> SumTerms:
    plain = terms_of(count, size=SIZE * len(BLOCKS))
    # Not in the order of names: what counts is where they are in an update.
    blocks = tuple(SumBlock(name=name, size=SIZE) for name in ("plan", "act", "check"))
    return plain.model_copy(update={"blocks": blocks})


def cleared(updates: Mapping[str, Whole], blocks: Mapping[str, list[str]], of: SumTerms) -> Any:
    """The updates with nothing in the blocks that a member does not have."""
    found = {name: update.copy() for name, update in updates.items()}
    for name, update in found.items():
        for block, span in of.spans.items():
            if block not in blocks[name]:
                update[span] = 0
    return found


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.integers(3, 7), seed=st.integers(0, 2**32))
def test_each_block_is_the_sum_of_those_who_have_it_or_of_nobody(
    data: st.DataObject, count: int, seed: int
):
    """Whatever a member has in the numbers of a block that it did not announce."""
    of = terms(count)
    blocks = {name: data.draw(subsets) for name in of.members}
    gone = {}
    if count > of.threshold and data.draw(st.booleans()):
        gone = {data.draw(st.sampled_from(of.members)): data.draw(st.sampled_from(STAGES))}
    updates = updates_of(of.members, size=of.size, seed=seed)
    senders = [name for name in of.members if gone.get(name) not in ("keys", "shares")]
    survivors = [name for name in senders if gone.get(name) != "masked"]
    having = {b: [n for n in senders if b in blocks[n]] for b in BLOCKS}
    summed = {block for block, names in having.items() if len(names) >= of.least}
    left = {b: [n for n in survivors if b in blocks[n]] for b in BLOCKS}
    if any(len(left[block]) < of.least for block in summed):
        with pytest.raises(WireError, match="fewer than 3 of the survivors"):
            play(of, updates, gone, seed=seed, blocks=blocks)
        return
    played = play(of, updates, gone, seed=seed, blocks=blocks)
    exact = clear_sum(cleared(updates, blocks, of), survivors)
    for block, span in of.spans.items():
        expected = exact[span] if block in summed else np.zeros(SIZE, np.uint32)
        assert np.array_equal(played.total[span], expected)
    told = {n: tuple(b for b in sorted(blocks[n]) if b in summed) for n in survivors}
    assert played.plan.blocks == told


@pytest.mark.parametrize(
    "wrong", [(), ("fly",), ("act", "act"), ("act", "fly")], ids=["none", "other", "twice", "more"]
)
def test_blocks_that_the_adapter_has_not_are_refused(wrong: tuple[str, ...]):
    of = terms(3)
    told = [
        announce(of, name, signer_of(name), draw=draws(1), blocks=wrong if name == "a" else BLOCKS)
        for name in NAMES[:3]
    ]
    with pytest.raises(WireError, match="a announced other blocks"):
        plan_sum([one.announcement for one in told], of, DIRECTORY)


def test_blocks_where_an_update_has_none_are_refused():
    plain = terms_of(3)
    told = [announce(plain, n, signer_of(n), draw=draws(1), blocks=["act"]) for n in NAMES[:3]]
    with pytest.raises(WireError, match="announced other blocks"):
        plan_sum([one.announcement for one in told], plain, DIRECTORY)


def test_nobody_else_can_say_which_blocks_a_member_has():
    """They are in what the member signed."""
    of = terms(3)
    told = [announce(of, n, signer_of(n), draw=draws(1), blocks=BLOCKS) for n in NAMES[:3]]
    first, *others = (one.announcement for one in told)
    changed = first.model_copy(update={"blocks": ("act",)})
    with pytest.raises(WireError, match="not signed by a"):
        plan_sum([changed, *others], of, DIRECTORY)


def test_without_blocks_nothing_of_them_is_said():
    plain = terms_of(3)
    state = announce(plain, "a", signer_of("a"), draw=draws(1))
    assert "blocks" not in state.announcement.model_dump()
    assert "blocks" not in plain.model_dump()
