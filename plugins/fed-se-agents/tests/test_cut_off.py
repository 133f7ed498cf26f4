"""What is learned of a reply that was cut off in a call."""

from typing import Any

import pytest

from tests.needs import needs

needs("transformers", "jsonschema", "starlette", "uvicorn")

from loopback import LETTERS
from test_tools import LOOK, MOVE, tiny_encoder

from fedse.agent.calls import made_call, written_call
from fedse.agent.policy import Reply
from fedse_agents.cut_off import ended_after_calls
from fedse_agents.offer import offer_of

CALL = written_call(made_call("move", {"way": "up"}))
ENCODER = tiny_encoder()


def spelled(text: str, *end: int) -> Reply:
    ids = (*map(LETTERS.__getitem__, text), *end)
    return Reply(text, (), ids, (-1.0,) * len(ids))


def offer(choice: str) -> Any:
    return offer_of({"tools": [MOVE, LOOK], "tool_choice": choice})


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("rest", ['\n<tool_call>\n{"na', "\n", "\n<tool_call>\n", ""])
def test_it_ends_after_the_last_whole_call(calls: int, rest: str) -> None:
    whole = "\n".join([CALL] * calls)
    reply = ended_after_calls(spelled(whole + rest), offer("required"), ENCODER)
    assert reply.text == whole
    assert reply.action_ids == (*map(LETTERS.__getitem__, whole), ENCODER.end_id)
    assert offer("required").read(reply.text) == offer("required").read(whole)
    assert reply.log_chances == ()


def test_every_other_reply_stays_as_it_is() -> None:
    cut = f"{CALL}\n<tool_call>\n{{"
    for reply, choice in (
        (spelled(CALL, ENCODER.end_id), "required"),
        (spelled(cut), "auto"),
        (spelled('<tool_call>\n{"na'), "required"),
    ):
        assert ended_after_calls(reply, offer(choice), ENCODER) == reply
