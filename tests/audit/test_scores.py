"""AUC and hits at few false alarms: exact on small arrays; intervals as wide as they should be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.audit.scores import (
    Scores,
    auc,
    auc_estimate,
    hits,
    lessons_for,
    mean_estimate,
    null_error,
    tpr,
    tpr_estimate,
)
from fedse.stats.rates import Z_95, wilson


def scores(members, others) -> Scores:
    return Scores(np.array(members, dtype=float), np.array(others, dtype=float))


@pytest.mark.parametrize(
    ("members", "others", "expected"),
    [
        ([2, 3], [0, 1], 1.0),
        ([0, 1], [2, 3], 0.0),
        ([1, 3], [0, 2], 0.75),
        ([1, 1], [1, 1], 0.5),
        ([1, 2, 3], [2], 0.5),
        ([2, 2], [2, 1], 0.75),
    ],
)
def test_auc_is_the_share_of_pairs_in_the_right_order(members, others, expected):
    assert auc(scores(members, others)) == expected


numbers = st.lists(st.integers(-5, 5), min_size=1, max_size=20)


@given(numbers, numbers)
def test_auc_counts_every_pair_and_turns_over_when_the_sides_change(members, others):
    pairs = [(a > b) + (a == b) / 2 for a in members for b in others]
    found = auc(scores(members, others))
    assert found == pytest.approx(sum(pairs) / len(pairs))
    assert auc(scores(others, members)) == pytest.approx(1 - found)


def test_hits_are_counted_above_what_one_other_in_a_hundred_exceeds():
    others = np.arange(200)  # 198 and 199 may be taken for members, so the threshold is 197
    assert hits(scores([197, 197.5, 198, 1000], others)) == 3
    assert tpr(scores([197, 197.5, 198, 1000], others)) == 0.75


def test_with_fewer_than_a_hundred_others_no_false_alarm_is_allowed():
    assert tpr(scores([98, 98.5], np.arange(99))) == 0.5
    assert tpr(scores([97, 98], np.arange(99))) == 0
    assert tpr(scores([98.5, 98.5], np.arange(100))) == 1  # one of a hundred


def test_the_same_seed_gives_the_same_interval_and_it_holds_the_figure():
    random = np.random.default_rng(1)
    drawn = scores(random.normal(0.5, 1, 80), random.normal(0, 1, 80))
    first, again = (auc_estimate(drawn, seed=3) for _ in range(2))
    assert first == again
    assert first.low < first.value < first.high
    assert first.value == auc(drawn)


def test_the_interval_of_an_auc_is_as_wide_as_the_theory_says():
    """Without any difference between the sides; of 200 lessons."""
    random = np.random.default_rng(2)
    found = auc_estimate(scores(random.normal(size=200), random.normal(size=200)), seed=1)
    expected = 2 * Z_95 * null_error(200, 200)
    assert 0.8 * expected < found.high - found.low < 1.2 * expected


def test_no_hit_at_all_has_the_interval_of_no_hit():
    found = tpr_estimate(scores(np.zeros(50), np.ones(50)), seed=1)
    assert (found.value, found.low) == (0, 0)
    assert found.high == wilson(0, 50).high


def test_lessons_are_paired_when_they_are_drawn_again():
    """Every member is just above its own counterpart, whatever the lesson."""
    base = np.random.default_rng(4).normal(size=100) * 100
    found = auc_estimate(Scores(base + 1e-6, base), seed=1)
    assert found.high - found.low < 0.03


def test_so_many_lessons_are_enough_for_the_interval_and_few_less_are_not():
    for width in (0.02, 0.05, 0.1):
        count = lessons_for(width)
        assert Z_95 * null_error(count, count) <= width
        assert Z_95 * null_error(count - 3, count - 3) > width
    assert lessons_for(0.05) == 258


def test_the_mean_of_equal_figures_is_certain():
    found = mean_estimate(np.full(5, 2.5), seed=1)
    assert (found.value, found.low, found.high) == (2.5, 2.5, 2.5)
