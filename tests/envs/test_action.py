"""From what the agent said to the action it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.envs.action import action_of


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("", ""),
        ("  move \t up\n", "move up"),
        ("Thought: why not\nAction: move up", "move up"),
        ("Action: a\nThought: no\nACTION :  b  c \nObservation: d", "b c"),
        ("Action:\n\n move up\nmore", "move up"),
        ("Action: move up\nAction:", ""),
    ],
)
def test_known_texts(text: str, action: str) -> None:
    assert action_of(text) == action


@given(st.text())
def test_reading_an_action_again_changes_nothing(text: str) -> None:
    assert action_of(action_of(text)) == action_of(text)
