"""Tool calls of OpenAI's own client: recorded as they were sampled, in every form it reads."""

import json
from typing import Any

import pytest

from tests.needs import needs

needs("openai", "starlette", "uvicorn", "jsonschema", "transformers")

import httpx2
from loopback import Running, Spelling, endpoint, post
from openai import BadRequestError, OpenAI

from fedse.adapters.base import base_path
from fedse.agent.prompt import Encoder
from fedse.agent.tokens import load_tokenizer
from fedse_agents.offer import offer_of

MOVE = {
    "type": "function",
    "function": {
        "name": "move",
        "description": "Walk one cell.",
        "parameters": {
            "type": "object",
            "properties": {"way": {"enum": ["up", "down"]}},
            "required": ["way"],
            "additionalProperties": False,
        },
    },
}
LOOK = {"type": "function", "function": {"name": "look"}}
CALL = '<tool_call>\n{"name": "move", "arguments": {"way": "up"}}\n</tool_call>'
LOOKING = '<tool_call>{"arguments":{},"name":"look"}</tool_call>'
# As in Qwen2.5's template, with the tokens of the tiny model.
HERMES = """{%- if tools %}<|system|>{{ messages[0].content if messages[0].role == 'system' }}
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}
{%- elif messages[0].role == 'system' %}<|system|>{{ messages[0].content }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|user|>{{ message.content }}
{%- elif message.role == 'assistant' %}<|assistant|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|end|>
{%- elif message.role == 'tool' %}<|user|>
<tool_response>
{{ message.content }}
</tool_response>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def tiny_encoder(template: str | None = None) -> Encoder:
    tokenizer = load_tokenizer(base_path("tiny"))
    tokenizer.chat_template = template or tokenizer.chat_template
    return Encoder(tokenizer)


@pytest.fixture(scope="module", params=["plain", "template"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return tiny_encoder(HERMES if request.param == "template" else None)


def client_of(running: Running) -> OpenAI:
    # Plain HTTP: reading all authorities would take longer than the question.
    plain = httpx2.Client(trust_env=False, verify=False)
    url = running.open()["base_url"]
    return OpenAI(base_url=url, api_key="none", max_retries=0, http_client=plain)


@pytest.fixture
def asking() -> dict[str, Any]:
    return {"model": "any", "tools": [MOVE, LOOK]}


def test_which_templates_have_tools():
    assert tiny_encoder(HERMES).template_has_tools
    assert not tiny_encoder().template_has_tools
    assert not tiny_encoder(HERMES.replace("<tool_call>", "<call>")).template_has_tools
    strict = "{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    refuses = HERMES.replace(
        "{%- for message in messages %}", "{%- for message in messages %}" + strict
    )
    assert not tiny_encoder(refuses).template_has_tools


def test_a_call_and_what_it_returned_are_one_episode_of_sampled_tokens(
    encoder: Encoder, asking: dict[str, Any]
) -> None:
    policy = Spelling(encoder, f"I go.\n{CALL}", "there")
    with endpoint(policy, encoder=encoder) as running, client_of(running) as client:
        said: list[Any] = [{"role": "system", "content": "maze"}, {"role": "user", "content": "go"}]
        first = client.chat.completions.create(messages=said, **asking).choices[0]
        assert first.finish_reason == "tool_calls"
        assert first.message.content == "I go."
        (call,) = first.message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, json.loads(call.function.arguments)) == ("move", {"way": "up"})
        said += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "moved"}]
        last = client.chat.completions.create(messages=said, **asking).choices[0]
        assert (last.finish_reason, last.message.content) == ("stop", "there")
        assert last.message.tool_calls is None
        played = running.recorded()[0]
    assert [turn.action_ids for turn in played.turns] == policy.sampled
    assert policy.sampled[0] != encoder.action(f"I go.\n{CALL}"), "or the law would be weak"
    assert policy.seen[1].turns == played.turns[:1]
    marked = [i for i, learn in zip(played.token_ids, played.loss_mask, strict=True) if learn]
    assert tuple(marked) == (*policy.sampled[0], *policy.sampled[1])
    shown = encoder.text(played.turns[0].context_ids)
    assert "Walk one cell." in shown, "the model is told of the tools"
    assert "moved" in encoder.text(played.turns[1].context_ids)


def test_a_client_may_write_the_arguments_anew(encoder: Encoder, asking: dict[str, Any]) -> None:
    """As LangChain does: other blanks, another order, null beside ''."""
    both = '<tool_call>\n{"name": "move", "arguments": {"way":"up","by":1}}\n</tool_call>'
    policy = Spelling(encoder, both, "there")
    with endpoint(policy, encoder=encoder) as running, client_of(running) as client:
        said: list[Any] = [{"role": "user", "content": "go"}]
        client.chat.completions.create(messages=said, **asking)
        function = {"name": "move", "arguments": '{ "by": 1, "way": "up" }'}
        call = {"id": "mine", "type": "function", "function": function}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": "mine", "content": "moved"})
        client.chat.completions.create(messages=said, **asking)
        assert [turn.action_ids for turn in running.recorded()[0].turns] == policy.sampled


def test_parallel_calls_stream_as_the_client_reads_them(asking: dict[str, Any]) -> None:
    encoder = tiny_encoder()
    policy = Spelling(encoder, CALL + LOOKING, CALL + LOOKING)
    with endpoint(policy, encoder=encoder) as running, client_of(running) as client:
        said: list[Any] = [{"role": "user", "content": "go"}]
        with client.chat.completions.stream(messages=said, **asking) as stream:
            message = stream.get_final_completion().choices[0].message
        calls = message.tool_calls or []
        assert [call.function.name for call in calls] == ["move", "look"]
        assert [json.loads(call.function.arguments) for call in calls] == [{"way": "up"}, {}]
        assert len({call.id for call in calls}) == 2
        one = client.chat.completions.create(messages=said, parallel_tool_calls=False, **asking)
        assert len(one.choices[0].message.tool_calls or []) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "fly", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "move", "arguments": {"way": "left"}}</tool_call>',
        '<tool_call>{"name": "move", "arguments": "up"}</tool_call>',
        '<tool_call>{"name": "move"',
        "<tool_call>up</tool_call>",
    ],
)
def test_what_is_no_call_of_an_offered_function_stays_text(text: str) -> None:
    strict = {"type": "function", "function": {**MOVE["function"], "strict": True}}  # type: ignore[dict-item]
    encoder = tiny_encoder()
    with endpoint(Spelling(encoder, text), encoder=encoder) as running:
        body = {"messages": [{"role": "user", "content": "go"}], "tools": [strict]}
        told = post(f"{running.open()['base_url']}/chat/completions", body)[1]["choices"][0]
    assert (told["message"]["content"], told["finish_reason"]) == (text, "stop")
    assert "tool_calls" not in told["message"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function.name"),
    (
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": 3}}}]},
        "tools[0].function.parameters",
    ),
    ({"tool_choice": "required"}, "tool_choice"),
    (
        {"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "tool_choice",
    ),
    ({"response_format": {"type": "grammar"}}, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format.json_schema.schema",
    ),
    # The policy of this test samples freely, so it can keep no promise about its words.
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"tools": [LOOK], "tool_choice": "required"}, "tool_choice"),
]


def test_what_a_reply_is_held_to() -> None:
    form = {"type": "json_object"}
    free = offer_of({"tools": [MOVE, LOOK]})
    required = offer_of({"tools": [MOVE, LOOK], "tool_choice": "required", "response_format": form})
    either = offer_of({"tools": [MOVE, LOOK], "response_format": form})
    neither = offer_of({"tools": [MOVE], "tool_choice": "none", "response_format": form})
    assert free.shape() is None
    calls = [
        (shape.answer, [call.name for call in shape.calls])
        for offer in (required, either, neither)
        if (shape := offer.shape()) is not None
    ]
    answer = '{"type": "object"}'
    assert calls == [(None, ["move", "look"]), (answer, ["move", "look"]), (answer, [])]


def test_what_cannot_be_kept_is_refused_by_name() -> None:
    encoder = tiny_encoder()
    with endpoint(Spelling(encoder), encoder=encoder) as running, client_of(running) as client:
        for parameters, name in REFUSED:
            with pytest.raises(BadRequestError) as caught:
                client.chat.completions.create(
                    model="any", messages=[{"role": "user", "content": "go"}], **parameters
                )
            assert caught.value.param == name
