"""A round's episodes as numbers: exact small cases."""

from math import log

import pytest

from fedse.method.counts import count_episodes, distinct_share, entropy
from fedse.types import Task, Trajectory, Turn


def episode(*actions: str, outcome: str = "success") -> Trajectory:
    turns = tuple(Turn(observation="here", action=action) for action in actions)
    task = Task(env="coin", id="1", split="train")
    return Trajectory(
        task=task, seed=0, turns=turns, outcome=outcome, reward=0.0, policy="p", round=1
    )


def test_entropy_of_known_distributions():
    assert entropy([]) == 0
    assert entropy(["left"] * 5) == 0
    assert entropy(["a", "b", "c", "d"]) == pytest.approx(log(4))
    assert entropy(["a", "a", "a", "b"]) == pytest.approx(log(4) - 0.75 * log(3))


def test_repeated_episodes_are_counted_once():
    assert distinct_share([]) == 0
    assert distinct_share([episode("a", "b"), episode("a", "b"), episode("a"), episode()]) == 0.75


def test_outcomes_are_counted_apart():
    played = [episode("a"), episode("a", outcome="broken"), episode("b", outcome="truncated")]
    found = count_episodes([*played, episode("b", outcome="failure")], new_tokens=8)
    counts = (found.played, found.succeeded, found.broken, found.truncated)
    assert counts == (4, 1, 1, 1)
    assert found.entropy == pytest.approx(log(2))
    assert found.distinct == 0.5


def test_replies_that_fill_their_room_and_those_without_an_action_are_counted():
    turns = tuple(Turn(observation="", action="a", action_ids=(5,) * n) for n in (1, 3, 4))
    long = episode().model_copy(update={"turns": turns, "invalid_turns": 2})
    found = count_episodes([long, episode("b")], new_tokens=3)
    assert (found.replies, found.unread, found.cut) == (4, 2, 2)
