"""Where a call or JSON is required, even the tiny model, which knows neither, says only that."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from tests.needs import needs

needs("llguidance", "openai", "starlette", "uvicorn", "jsonschema", "torch", "transformers")

from loopback import Running, endpoint
from openai import BadRequestError, OpenAI
from pydantic import BaseModel
from test_tools import LOOK, MOVE, client_of

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.policy import Dialogue
from fedse.agent.shape import CallShape, Shape, lark_of, shape_error, structured_outputs
from fedse.engine.client import Sampling, _sampling

GO: list[Any] = [{"role": "user", "content": "at 1 1 goal down 2 open up down"}]
ASKING: dict[str, Any] = {"model": "any", "messages": GO}


@pytest.fixture(scope="module")
def policy() -> HFPolicy:
    spec = adapter_spec("tiny", rank=8, alpha=16, targets=("q_proj", "v_proj"))
    engine = engine_for(base_path("tiny"), spec)
    adapter = initial_adapter(spec, seed=0)
    return HFPolicy(engine, adapter, temperature=1.0, context=1024, new_tokens=96)


@pytest.fixture(scope="module")
def asked(policy: HFPolicy) -> Iterator[tuple[Running, OpenAI]]:
    encoder = policy._engine.encoder
    with endpoint(policy, encoder=encoder, max_turns=99) as running, client_of(running) as client:
        yield running, client


def test_a_required_call_is_a_call(asked: tuple[Running, OpenAI]) -> None:
    running, client = asked
    tools: Any = [MOVE, LOOK]
    told = client.chat.completions.create(
        tools=tools, tool_choice="required", parallel_tool_calls=False, **ASKING
    )
    (call,) = told.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name in ("move", "look")
    named: Any = {"type": "function", "function": {"name": "move"}}
    told = client.chat.completions.create(tools=tools, tool_choice=named, **ASKING)
    (call,) = told.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments)["way"] in ("up", "down")
    turn = running.episodes.playing()[0].turns[-1]
    assert turn.action_ids[-1] == 1, "it ended by itself"
    assert told.choices[0].finish_reason == "tool_calls"


class Way(BaseModel):
    way: Literal["up", "down"]
    sure: bool


def test_a_response_format_is_kept(asked: tuple[Running, OpenAI]) -> None:
    _, client = asked
    told = client.chat.completions.parse(response_format=Way, **ASKING)
    assert told.choices[0].message.parsed in [
        Way(way=w, sure=s) for w in ("up", "down") for s in (True, False)
    ]
    response = client.responses.parse(model="any", input=GO, text_format=Way)
    assert isinstance(response.output_parsed, Way)


def test_a_schema_that_no_sampler_can_keep_is_refused(asked: tuple[Running, OpenAI]) -> None:
    schema = {"name": "x", "schema": {"not": {"type": "string"}}}
    form: Any = {"type": "json_schema", "json_schema": schema}
    with pytest.raises(BadRequestError, match="Unimplemented keys") as caught:
        asked[1].chat.completions.create(response_format=form, **ASKING)
    assert caught.value.param == "response_format"


def test_free_and_shaped_replies_are_sampled_together(policy: HFPolicy) -> None:
    shape = Shape(answer='{"enum": ["up", "down"]}')
    free = Dialogue("maze", (), GO[0]["content"])
    alone = policy.act([free, free], seed=3)
    both = policy.act([free, free._replace(shape=shape)], seed=3)
    assert both[0] == alone[0], "a shape binds its own row only"
    assert both[1] is not None
    assert json.loads(both[1].text) in ("up", "down")
    assert both[1].text == policy._engine.encoder.text(both[1].action_ids)
    told = HFPolicy(
        policy._engine, policy._adapter, temperature=1.0, context=1024, new_tokens=96,
        log_chances=True,
    ).act([free, free._replace(shape=shape)], seed=3)  # fmt: skip
    assert [reply and reply.action_ids for reply in told] == [
        one and one.action_ids for one in both
    ]
    assert told[0] is not None
    assert len(told[0].log_chances) == len(told[0].action_ids)
    assert told[1] is not None
    assert told[1].log_chances == (), "it was drawn from another distribution than the model's"


def test_a_server_is_sent_the_same_shape() -> None:
    way = '{"enum": ["up", "down"]}'
    assert structured_outputs(Shape(answer=way)) == {"json": {"enum": ["up", "down"]}}
    shape = Shape((CallShape("move", way),), many=True)
    told = json.loads(structured_outputs(shape)["structural_tag"])["format"]
    assert (told["at_least_one"], told["stop_after_first"]) == (True, False)
    (tag,) = told["tags"]
    assert tag["begin"] == '<tool_call>\n{"name": "move", "arguments": '
    assert json.dumps(tag["begin"]) in lark_of(shape)
    assert shape_error(shape) == ""
    how = Sampling(1.0, 9, 1, None, shape=shape)
    assert _sampling(how)["structured_outputs"] == structured_outputs(shape)
    assert "structured_outputs" not in _sampling(how._replace(shape=None))
