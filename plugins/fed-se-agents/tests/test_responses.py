"""OpenAI's Responses API, as its own client and the frameworks on top of it use it."""

import json
from typing import Any

import pytest

from tests.needs import needs

needs("openai", "starlette", "uvicorn", "jsonschema", "transformers")

from loopback import Spelling, endpoint
from openai import BadRequestError
from test_tools import CALL, LOOKING, client_of, tiny_encoder

from fedse_agents.responses import FOLLOWED, IGNORED, UNKEPT

# The body of "Create a model response" in OpenAI's API reference.
DOCUMENTED = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
]
MOVE = {
    "type": "function",
    "name": "move",
    "parameters": {
        "type": "object",
        "properties": {"way": {"enum": ["up", "down"]}},
        "required": ["way"],
        "additionalProperties": False,
    },
    "strict": True,
}
LOOK = {"type": "function", "name": "look", "parameters": None, "strict": False}
ASKING: dict[str, Any] = {"model": "any", "tools": [MOVE, LOOK], "instructions": "maze"}


def test_every_documented_parameter_has_its_place():
    assert sorted([*FOLLOWED, *IGNORED, *UNKEPT]) == DOCUMENTED


def result_of(call: Any) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": "moved"}


@pytest.mark.parametrize("remembered", [False, True])
def test_a_call_and_what_it_returned_are_one_episode(remembered: bool) -> None:
    """Whether the program sends all items again or names the response before."""
    encoder = tiny_encoder()
    policy = Spelling(encoder, f"I go.\n{CALL}{LOOKING}", "there")
    with endpoint(policy, encoder=encoder) as running, client_of(running) as client:
        items: list[Any] = [{"role": "user", "content": "go"}]
        first = client.responses.create(input=items, **ASKING)
        call, look = first.output[1:]
        assert first.output_text == "I go."
        assert (call.type, look.type) == ("function_call", "function_call")
        assert (call.name, json.loads(call.arguments)) == ("move", {"way": "up"})
        results = [result_of(call), result_of(look)]
        if remembered:
            last = client.responses.create(input=results, previous_response_id=first.id, **ASKING)
        else:
            last = client.responses.create(input=[*items, *first.output, *results], **ASKING)
        assert (last.output_text, last.status) == ("there", "completed")
        played = running.recorded()[0]
    assert [turn.action_ids for turn in played.turns] == policy.sampled
    assert sum(played.loss_mask) == sum(map(len, policy.sampled))


def test_streams_end_as_openais_do() -> None:
    encoder = tiny_encoder()
    policy = Spelling(encoder, f"I go.\n{CALL}")
    with (
        endpoint(policy, encoder=encoder) as running,
        client_of(running) as client,
        client.responses.stream(input="go", **ASKING) as stream,
    ):
        kinds = [event.type for event in stream]
        whole = stream.get_final_response()
    assert whole.output_text == "I go."
    assert whole.output[1].type == "function_call"
    assert whole.usage is not None
    assert whole.usage.output_tokens == len(policy.sampled[0])
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert "response.function_call_arguments.delta" in kinds


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content"),
    ({"previous_response_id": "resp_none"}, "previous_response_id"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    (
        {"tools": [{"type": "function", "name": "x", "parameters": {"type": 3}}]},
        "tools[0].parameters",
    ),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"background": True}, "background"),
    ({"reasoning": {"effort": "high"}}, "reasoning"),
]


def test_what_cannot_be_kept_is_refused_by_name() -> None:
    encoder = tiny_encoder()
    with endpoint(Spelling(encoder), encoder=encoder) as running, client_of(running) as client:
        for parameters, name in REFUSED:
            with pytest.raises(BadRequestError) as caught:
                client.responses.create(**{"model": "any", "input": "go", **parameters})
            assert caught.value.param == name
