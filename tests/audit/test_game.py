"""The membership game: halves that complete each other, and the same ones by the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.audit.canary import make_canaries
from fedse.audit.controls import observations_control, repeated_control
from fedse.audit.game import TARGETS, AuditSubject, draw_halves, play_game
from fedse.config.training import TrainSection
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Task, Trajectory, Turn

START = toy_adapter(toy_spec(), 0)


def lesson(number: int) -> Trajectory:
    turn = Turn(observation=f"o{number}", action="a", context_ids=(1,), action_ids=(2,))
    task = Task(env="toy", id=str(number), split="train")
    return Trajectory(
        task=task, seed=0, turns=(turn,), outcome="success", reward=1.0, policy="p", round=1
    )


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 99))
def test_halves_are_disjoint_balanced_and_follow_from_the_seed(half, pairs, seed):
    rows = draw_halves(2 * half, pairs, seed=seed)
    assert rows.shape == (2 * pairs, 2 * half)
    assert (rows.sum(axis=1) == half).all()
    assert (rows[::2] ^ rows[1::2]).all()
    assert (rows == draw_halves(2 * half, pairs, seed=seed)).all()


def test_another_seed_is_another_game_and_no_pair_repeats_one():
    first, other = (draw_halves(40, 3, seed=seed) for seed in (1, 2))
    assert (first != other).any()
    assert len({row.tobytes() for row in first}) == 6


def test_an_odd_number_of_lessons_has_no_halves():
    with pytest.raises(ValueError, match="even"):
        draw_halves(7, 1, seed=1)


def test_every_reply_learned_from_its_half_and_from_nothing_else():
    learned: list[tuple[str, ...]] = []
    seeds: list[int] = []

    def learn(lessons, settings, seed):
        learned.append(tuple(one.task.id for one in lessons))
        seeds.append(seed)
        assert settings == TrainSection(lr=0.5)
        return START

    pool = [lesson(number) for number in range(10)]
    subject = AuditSubject(START, pool, TrainSection(lr=0.5), learn, None, lambda one: one)
    game = play_game(subject, shadows=4, seed=1, tell=lambda text: None)
    assert len(game.replies) == TARGETS + 4
    for row, names in zip(game.members, learned, strict=True):
        assert [str(place) for place in np.flatnonzero(row)] == list(names)
    assert len(set(seeds)) == 6


class Blind:
    """A probe that sees nothing."""

    def losses(self, adapter, lessons):
        return np.zeros(len(lessons))

    def tail_losses(self, adapter, head, tails):
        return np.zeros(len(tails))


def test_controls_are_learned_without_what_protects_a_reply():
    openly: list[int] = []

    def protected(lessons, settings, seed):
        raise AssertionError("a control was learned with the protection that it must not have")

    def unprotected(lessons, settings, seed):
        openly.append(len(lessons))
        return START

    def tokenized(episode: Trajectory) -> Trajectory:
        ids = {"context_ids": (1,), "action_ids": tuple(episode.turns[0].action.encode())}
        return episode.model_copy(update={"turns": (episode.turns[0].model_copy(update=ids),)})

    pool = [lesson(number) for number in range(10)]
    own = (TrainSection(), protected, Blind(), tokenized)
    subject = AuditSubject(START, pool, *own, unprotected)
    (canary,) = make_canaries(pool, "typed", 1, seed=1)
    assert observations_control(subject, seed=1).figure == 0.5
    assert not repeated_control(subject, canary, candidates=16, seed=1).succeeded
    assert openly == [5, 110]
    assert (
        subject._replace(unprotected=None, learn=unprotected).learn_openly([], own[0], 1) == START
    )
