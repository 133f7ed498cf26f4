"""The loss in exact small numbers: which tokens count, and which logits predict them."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("torch")

import torch
import torch.nn.functional as F
from torch import Tensor

from fedse.train.batch import (
    IGNORED,
    Batch,
    Lesson,
    LessonOrigin,
    agent_loss,
    learned_tokens,
    lesson_of,
    make_batch,
    make_pieces,
    padded_tokens,
)
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


def loss_of(logits_B_T_V: Tensor, batch: Batch) -> Tensor:
    return agent_loss(logits_B_T_V[batch.predicting_B_T], batch.labels_B_T)


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


def test_an_origin_says_how_an_episode_was_played_token_by_token():
    task = Task(env="maze", id="7", split="train")
    said = {"context_ids": (1, 2), "action_ids": (3, 4), "observation": "", "action": ""}
    turns = tuple(Turn(**said, log_chances=chances) for chances in ((-1.0, -2.0), (-3.0, -4.0)))
    facts = {"task": task, "seed": 0, "outcome": "failure", "policy": "p", "round": 1}
    episode = Trajectory(turns=turns, reward=0.5, **facts)
    chances = (0.0, 0.0, -1.0, -2.0, 0.0, 0.0, -3.0, -4.0)
    whole = lesson_of(episode, origin=True)
    assert whole.origin == LessonOrigin("7", 0.5, "p", chances)
    assert lesson_of(episode, context=7, origin=True).origin.log_chances == chances[:7]
    assert lesson_of(whole, origin=True) == whole
    assert lesson_of(episode).origin is None
    silent = episode.model_copy(update={"turns": (turns[0], Turn(**said))})
    assert lesson_of(silent, origin=True).origin.log_chances == ()


def test_the_loss_is_the_mean_over_the_agents_tokens():
    """Of four: two are as likely as the seven others, two have odds of 3 against all together."""
    batch = make_batch([LONG, SHORT], context=99)
    logits = torch.zeros(2, 6, VOCABULARY)
    # The logits at one place predict the token at the next.
    odds = log(3 * (VOCABULARY - 1))
    logits[0, 1, 3] = logits[1, 0, 2] = odds
    expected = (2 * log(VOCABULARY) + 2 * log(4 / 3)) / 4
    assert loss_of(logits, batch).item() == pytest.approx(expected, abs=1e-6)


def test_no_other_logit_has_any_influence():
    batch = make_batch([LONG, SHORT], context=99)
    torch.manual_seed(0)
    logits = torch.randn(2, 6, VOCABULARY)
    before = loss_of(logits, batch).item()
    predicting = {(0, 1), (0, 3), (0, 4), (1, 0)}
    for row, place in {(row, place) for row in range(2) for place in range(6)} - predicting:
        logits[row, place] = 1e3 * torch.randn(VOCABULARY)
    assert loss_of(logits, batch).item() == before


masks = st.lists(st.booleans(), min_size=1, max_size=40)
batches = st.lists(
    masks.map(lambda mask: Lesson(tuple(range(len(mask))), tuple(mask))), min_size=1, max_size=6
)


@given(lessons=batches.filter(learned_tokens), seed=st.integers(0, 99))
def test_the_loss_and_its_gradient_have_the_bits_of_the_mean_over_all_places(lessons, seed):
    """As torch takes it from all logits, with all but the agent's tokens ignored."""
    batch = make_batch(lessons)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*batch.ids_B_T.shape, 64, generator=generator)
    few, all_ = values.clone().requires_grad_(), values.clone().requires_grad_()
    ours = loss_of(few, batch)
    plain = F.cross_entropy(
        all_[:, :-1].flatten(0, 1), batch.labels_B_T[:, 1:].flatten(), ignore_index=IGNORED
    )
    ours.backward()
    plain.backward()
    assert torch.equal(ours, plain)
    assert torch.equal(few.grad, all_.grad)


@given(lessons=batches)
def test_what_is_learned_from_is_what_has_a_prediction(lessons):
    assert learned_tokens(lessons) == int(make_batch(lessons).predicting_B_T.sum())


@given(lessons=batches, max_tokens=st.none() | st.integers(1, 120), parts=st.integers(1, 3))
def test_pieces_are_the_batch_in_other_groups(lessons, max_tokens, parts):
    pieces = make_pieces(lessons, max_tokens=max_tokens, parts=parts)
    assert sorted(lesson for piece in pieces for lesson in piece) == sorted(lessons)
    assert all(pieces)
    for piece in pieces:
        assert padded_tokens(piece) == make_batch(piece).ids_B_T.numel()
        if max_tokens is not None:
            assert len(piece) == 1 or padded_tokens(piece) <= max_tokens
    if max_tokens is None:
        assert len(pieces) == min(parts, len(lessons))


@given(lessons=batches, max_tokens=st.integers(1, 120))
def test_a_piece_holds_lessons_of_neighbouring_lengths(lessons, max_tokens):
    """So that padding is small: the longest of a piece is not longer than any of the one before."""
    lengths = [
        [len(lesson.token_ids) for lesson in piece]
        for piece in make_pieces(lessons, max_tokens=max_tokens)
    ]
    flat = [length for piece in lengths for length in piece]
    assert flat == sorted(flat, reverse=True)


def test_lessons_are_grouped_as_tightly_as_the_limit_allows():
    lessons = [Lesson((7,) * n, (True,) * n) for n in (2, 9, 3, 20, 3)]
    pieces = make_pieces(lessons, max_tokens=10)
    assert [[len(lesson.token_ids) for lesson in piece] for piece in pieces] == [
        [20],
        [9],
        [3, 3, 2],
    ]


def test_without_a_limit_the_batch_stays_as_it_is():
    lessons = [Lesson((7,) * n, (True,) * n) for n in (2, 9, 3)]
    assert make_pieces(lessons, max_tokens=None) == [lessons]
