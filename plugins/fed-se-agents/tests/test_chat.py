"""Every parameter of a chat request does what it says, is ignored by our word, or is refused."""

import json
from typing import Any

import pytest

from fedse_agents.chat import FOLLOWED, IGNORED, UNKEPT, ChatRequest, parse_request
from fedse_agents.refused import RequestRefused

# The body of "Create chat completion" in OpenAI's API reference, each with a value that asks for
# something.
DOCUMENTED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "model": "m",
    "audio": {"voice": "ash", "format": "wav"},
    "frequency_penalty": 0.5,
    "function_call": {"name": "look"},
    "functions": [{"name": "look"}],
    "logit_bias": {"7": -100},
    "logprobs": True,
    "max_completion_tokens": 9,
    "max_tokens": 9,
    "metadata": {"a": "b"},
    "modalities": ["text", "audio"],
    "n": 2,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": -0.5,
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "reasoning_effort": "high",
    "response_format": {"type": "json_object"},
    "safety_identifier": "s",
    "seed": 1,
    "service_tier": "flex",
    "stop": ["END"],
    "store": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.1,
    "tool_choice": "required",
    "tools": [{"type": "function"}],
    "top_logprobs": 3,
    "top_p": 0.5,
    "user": "u",
    "verbosity": "low",
    "web_search_options": {},
}
PLAIN = {"messages": DOCUMENTED["messages"], "model": "m"}


def parsed(**parameters: object) -> ChatRequest:
    return parse_request(json.dumps({**PLAIN, **parameters}).encode())


def test_every_documented_parameter_has_its_place():
    assert {*FOLLOWED, *IGNORED, *UNKEPT} == {*DOCUMENTED}
    assert len(FOLLOWED) + len(IGNORED) + len(UNKEPT) == len(DOCUMENTED)


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_what_is_ignored_changes_nothing(name: str):
    assert parsed(**{name: DOCUMENTED[name]}) == parsed()


@pytest.mark.parametrize("name", sorted(UNKEPT))
def test_what_would_change_the_answer_is_refused_by_name(name: str):
    with pytest.raises(RequestRefused) as caught:
        parsed(**{name: DOCUMENTED[name]})
    error = caught.value.as_json()["error"]
    assert (caught.value.status, error["code"], error["param"]) == (400, "unsupported", name)
    assert error["message"].startswith(f"{name} is not supported here")


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, kept in UNKEPT.items() for value in (*kept, None)]
)
def test_a_value_that_asks_for_nothing_is_taken(name: str, value: object):
    assert parsed(**{name: value}) == parsed()


@pytest.mark.parametrize("name", ["top_k", "guided_json", "chat_template_kwargs", "Tools"])
def test_a_parameter_nobody_documents_is_refused_by_name(name: str):
    with pytest.raises(RequestRefused, match=rf"^{name} is not supported here, got 1; "):
        parsed(**{name: 1})


def test_streaming_is_followed():
    assert (parsed().stream, parsed().usage_in_stream) == (False, False)
    streamed = parsed(stream=True, stream_options={"include_usage": True})
    assert (streamed.stream, streamed.usage_in_stream) == (True, True)
