"""The loss in exact small numbers: which tokens count, and which logits predict them."""

from math import log

import pytest

from tests.needs import needs

needs("torch")

import torch

from fedse.train.batch import IGNORED, agent_loss, make_batch
from fedse.types import Task, Trajectory, Turn

VOCABULARY = 8


def episode(*turns: tuple[tuple[int, ...], tuple[int, ...]]) -> Trajectory:
    return Trajectory(
        task=Task(env="e", id="1", split="train"),
        seed=0,
        turns=tuple(
            Turn(observation="", action="", context_ids=shown, action_ids=said)
            for shown, said in turns
        ),
        outcome="success",
        reward=1.0,
        policy="p",
        round=1,
    )


LONG = episode(((1, 2), (3,)), ((4,), (5, 6)))
SHORT = episode(((1,), (2,)))


def test_labels_are_the_agents_tokens_in_their_places_and_nothing_else():
    batch = make_batch([LONG, SHORT], context=99)
    nothing = IGNORED
    assert batch.ids_B_T.tolist() == [[1, 2, 3, 4, 5, 6], [1, 2, 0, 0, 0, 0]]
    assert batch.attention_B_T.tolist() == [[1] * 6, [1, 1, 0, 0, 0, 0]]
    assert batch.labels_B_T.tolist() == [
        [nothing, nothing, 3, nothing, 5, 6],
        [nothing, 2, nothing, nothing, nothing, nothing],
    ]


def test_what_lies_beyond_the_context_is_cut_off():
    assert make_batch([LONG], context=5).labels_B_T.tolist() == [[-100, -100, 3, -100, 5]]


def test_the_loss_is_the_mean_over_the_agents_tokens():
    """Of four: two are as likely as the seven others, two have odds of 3 against all together."""
    batch = make_batch([LONG, SHORT], context=99)
    logits = torch.zeros(2, 6, VOCABULARY)
    # The logits at one place predict the token at the next.
    odds = log(3 * (VOCABULARY - 1))
    logits[0, 1, 3] = logits[1, 0, 2] = odds
    expected = (2 * log(VOCABULARY) + 2 * log(4 / 3)) / 4
    assert agent_loss(logits, batch.labels_B_T).item() == pytest.approx(expected, abs=1e-6)


def test_no_other_logit_has_any_influence():
    batch = make_batch([LONG, SHORT], context=99)
    torch.manual_seed(0)
    logits = torch.randn(2, 6, VOCABULARY)
    before = agent_loss(logits, batch.labels_B_T).item()
    predicting = {(0, 1), (0, 3), (0, 4), (1, 0)}
    for row, place in {(row, place) for row in range(2) for place in range(6)} - predicting:
        logits[row, place] = 1e3 * torch.randn(VOCABULARY)
    assert agent_loss(logits, batch.labels_B_T).item() == before
