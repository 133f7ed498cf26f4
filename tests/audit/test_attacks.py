"""What the attacks compute from losses that are known."""

import numpy as np
import pytest

from fedse.audit.attacks import AttackerView, attack, likelihood_ratio, parted
from fedse.audit.game import draw_halves
from fedse.audit.scores import auc

LESSONS = 60


def view_of(members, *, gain: float, seed: int = 1, noise: float = 0.1) -> AttackerView:
    """Each lesson is hard in its own way, and a reply that learned from it has a lower loss."""
    random = np.random.default_rng(seed)
    hard = random.normal(3, 1, LESSONS)
    losses = hard - gain * members + random.normal(0, noise, members.shape)
    return AttackerView(hard, losses, np.zeros((2, LESSONS)))


def test_a_lesson_has_one_score_as_a_member_and_one_as_none():
    members = np.array([[True, False], [False, True]])
    found = parted(np.array([[1.0, 2.0], [3.0, 4.0]]), members)
    assert found.members.tolist() == [1.0, 4.0]
    assert found.others.tolist() == [3.0, 2.0]


def test_comparing_with_the_adapter_that_was_sent_finds_what_the_loss_alone_does_not():
    members = draw_halves(LESSONS, 3, seed=1)
    found = attack(view_of(members, gain=0.5), members)
    assert auc(found["loss"]) < 0.75
    assert auc(found["difference"]) > 0.98
    assert auc(found["lira"]) > 0.95


@pytest.mark.parametrize("seed", range(5))
def test_no_attack_finds_members_where_nothing_was_learned(seed: int):
    members = draw_halves(LESSONS, 3, seed=seed)
    found = attack(view_of(members, gain=0.0, seed=seed), members)
    assert set(found) == {"loss", "difference", "lira", "cosine"}
    assert all(0.3 < auc(scores) < 0.7 for scores in found.values())


def test_without_shadows_there_is_no_likelihood_ratio():
    members = draw_halves(LESSONS, 2, seed=1)
    assert "lira" not in attack(view_of(members, gain=0.5), members)


def test_the_likelihood_ratio_is_that_of_two_normal_distributions():
    members = np.array([[True], [True], [False], [False]])
    shadows = np.array([[4.0], [6.0], [0.0], [2.0]])  # means 5 and 1, both variances 2
    found = likelihood_ratio(np.array([[5.0], [1.0], [3.0]]), shadows, members)
    assert found[:, 0].tolist() == pytest.approx([4.0, -4.0, 0.0])


def test_the_spread_is_that_of_all_lessons_together():
    members = np.array([[True, True], [True, True], [False, False], [False, False]])
    shadows = np.array([[4.0, 5.0], [6.0, 5.0], [0.0, 1.0], [2.0, 1.0]])  # variance (2 + 0) / 2
    found = likelihood_ratio(np.array([[5.0, 5.0]]), shadows, members)
    assert found[0].tolist() == pytest.approx([8.0, 8.0])


def test_training_that_never_varies_gives_finite_scores():
    members = np.array([[True], [True], [False], [False]])
    found = likelihood_ratio(np.zeros((2, 1)), np.zeros((4, 1)), members)
    assert np.isfinite(found).all()
