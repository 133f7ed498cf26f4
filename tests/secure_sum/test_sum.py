"""The sum is exact whoever drops out, and there is none below the threshold."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.errors import WireError
from tests.secure_sum.scene import (
    NAMES,
    STAGES,
    clear_sum,
    play,
    terms_of,
    updates_of,
)

SUMMED = STAGES[3:]
"""Who leaves before one of these has its update in the sum."""


@pytest.mark.parametrize(
    ("count", "needed"), [(3, 3), (4, 3), (5, 4), (6, 5), (9, 7), (10, 7), (12, 9)]
)
def test_more_than_two_thirds_are_needed(count: int, needed: int):
    assert terms_of(count).threshold == needed
    assert terms_of(count, least=count).threshold == count
    assert 3 * needed > 2 * count


@settings(max_examples=20)
@given(data=st.data(), count=st.integers(3, 7), seed=st.integers(0, 2**32))
def test_the_sum_is_that_of_the_clear_numbers_bit_for_bit(
    data: st.DataObject, count: int, seed: int
):
    """Whoever leaves, before whichever stage, as long as enough stay."""
    terms = terms_of(count)
    most = count - terms.threshold
    leaving = data.draw(st.sets(st.sampled_from(NAMES[:count]), max_size=most))
    gone = {name: data.draw(st.sampled_from(STAGES)) for name in sorted(leaving)}
    updates = updates_of(terms.members, seed=seed)
    summed = [n for n in terms.members if gone.get(n, "unmask") in SUMMED]
    played = play(terms, updates, gone, seed=seed)
    assert played.plan.survivors == tuple(summed)
    assert np.array_equal(played.total, clear_sum(updates, summed))


@pytest.mark.parametrize("stage", STAGES)
def test_a_third_of_ten_may_leave_before_any_stage_and_one_more_may_not(stage: str):
    terms = terms_of(10)
    updates = updates_of(terms.members)
    played = play(terms, updates, dict.fromkeys((NAMES[0], NAMES[5], NAMES[9]), stage))
    assert np.array_equal(played.total, clear_sum(updates, played.plan.survivors))
    assert len(played.plan.survivors) == (10 if stage in SUMMED else 7)
    with pytest.raises(WireError, match="7 are needed"):
        play(terms, updates, dict.fromkeys(NAMES[:4], stage))


def test_some_leave_before_one_stage_and_others_before_another():
    terms = terms_of(7)
    updates = updates_of(terms.members)
    for stages in pairwise(STAGES[1:]):
        gone = dict(zip(("b", "g"), stages, strict=True))
        played = play(terms, updates, gone)
        assert np.array_equal(played.total, clear_sum(updates, played.plan.survivors))


def test_the_same_secrets_give_other_masks_in_another_round():
    """Streams depend on the roster, and it on the round."""
    updates = updates_of(NAMES[:4])
    first, second = (play(terms_of(4, round=r), updates, seed=7) for r in (1, 2))
    assert first.states["a"].mask_seed == second.states["a"].mask_seed
    assert np.array_equal(first.total, second.total)
    assert np.mean(first.masked["a"] == second.masked["a"]) < 0.1
