"""What is remembered of earlier prompts saves work and changes no answer."""

from collections.abc import Sequence

from tests.needs import needs

needs("torch", "transformers")

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_service import adapter_of

from fedse.adapters.base import base_path
from fedse.agent import hf
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.policy import Dialogue
from fedse_serve.beginnings import WORTH, Remembered, shared_beginnings

MANUAL = "at 1 1 goal down 2 open up down " * 3
LETTERS = [f"{MANUAL} from {name}" for name in ("3 4", "3 5", "7 7")]
GREEDY = {"temperature": 0.0, "context": 512, "new_tokens": 4, "log_chances": True}


def policy(**more: object) -> HFPolicy:
    adapter = adapter_of(1, scale=30.0)
    return HFPolicy(engine_for(base_path("tiny"), adapter.spec), adapter, **GREEDY, **more)


def conversation(acting: HFPolicy) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Three letters, answers to two of them that go on, and a fourth one."""
    first = acting.act([Dialogue("", (), letter) for letter in LETTERS], seed=0)
    longer = [f"{letter} {reply.text} and" for letter, reply in zip(LETTERS, first, strict=True)]
    second = acting.act([Dialogue("", (), text) for text in longer[:2]], seed=0)
    third = acting.act([Dialogue("", (), MANUAL + "new"), Dialogue("", (), longer[2])], seed=0)
    return [(reply.action_ids, reply.log_chances) for reply in (*first, *second, *third) if reply]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each call of the model was given."""
    counts: list[int] = []
    plain = hf.forward

    def counted(engine, block, attention, cache):
        counts.append(int(block.attention_B_T.sum()))
        return plain(engine, block, attention, cache)

    monkeypatch.setattr(hf, "forward", counted)
    monkeypatch.setattr("fedse_serve.beginnings.forward", counted)
    return counts


@pytest.mark.parametrize("room", [1, 100, 10_000])
def test_answers_are_the_same_with_room_for_any_number_of_tokens(room: int) -> None:
    with torch.inference_mode():
        remembering = conversation(policy(beginnings=Remembered(tokens=room)))
    fresh = conversation(policy())
    assert [ids for ids, _ in remembering] == [ids for ids, _ in fresh]
    for (_, one), (_, other) in zip(remembering, fresh, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_what_was_computed_is_not_computed_again(computed: list[int]) -> None:
    conversation(policy())
    fresh = sum(computed)
    computed.clear()
    conversation(policy(beginnings=Remembered(tokens=10_000)))
    assert sum(computed) < 0.4 * fresh


Row = tuple[int, ...]
rows = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 3)).map(
        lambda one: (*[one[0]] * one[1], *[2] * 20, one[2], 9)
    ),
    min_size=1,
)


@given(rows)
def test_only_what_two_rows_share_is_computed_apart(drawn: Sequence[Row]) -> None:
    found = [*shared_beginnings(sorted(drawn))]
    assert len({*found}) == len(found)
    for shared in found:
        assert len(shared) >= WORTH
        assert sum(row[: len(shared)] == shared and len(row) > len(shared) for row in drawn) > 1
