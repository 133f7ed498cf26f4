"""Tool calls that OpenAI's client got are what is trained on: the sampled tokens, all of them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("llguidance", "openai", "starlette", "uvicorn", "jsonschema", "torch", "transformers", "peft")

import httpx2
from openai import OpenAI
from test_tools import LOOK, MOVE

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.agent.loaded import load_base
from fedse.agent.policy import Reply
from fedse.config.file import parse_config
from fedse.events import silent
from fedse.method.rounds import client_round, explore
from fedse.site.open import open_site
from fedse.train.batch import IGNORED, make_batch

SETTINGS = """
[run]
name = "tools"
[rollout]
episodes = 2
context = 1024
new_tokens = 96
[train]
max_steps = 1
[eval]
episodes = 0
[[clients]]
name = "me"
env = "program"
options = { play = "calling_program:play", train = 2, test = 1, max_turns = 2, parallel = 2 }
"""


def play(base_url: str, task: str) -> float:
    """Two calls, the second after the first one's result."""
    plain = httpx2.Client(trust_env=False, verify=False)
    said: list[Any] = [{"role": "user", "content": "at 1 1 goal down 2"}]
    tools: Any = [MOVE, LOOK]
    with OpenAI(base_url=base_url, api_key="none", http_client=plain) as client:
        for _ in range(2):
            told = client.chat.completions.create(
                model="any",
                messages=said,
                tools=tools,
                tool_choice="required",
                parallel_tool_calls=False,
            )
            message = told.choices[0].message
            (call,) = message.tool_calls or []
            said += [message, {"role": "tool", "tool_call_id": call.id, "content": "moved"}]
    return 1.0


def test_what_was_sampled_is_what_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "calling_program", sys.modules[__name__])
    config = parse_config(SETTINGS, "tools")
    site = open_site(config, "me", tmp_path, clock=lambda: 0.0)
    adapter, encoder = (
        initial_adapter(spec_of(config), seed=0),
        load_base(base_path("tiny")).encoder,
    )
    sampled = watch(monkeypatch)
    played = explore(adapter, site, config, round=1, seed=1, emit=silent)
    assert [episode.outcome for episode in played] == ["success"] * 2, played[0].error
    for episode in played:
        assert len(episode.turns) == 2, "no answer was dropped"
        for turn in episode.turns:
            assert turn.action == encoder.text(turn.action_ids)
            assert turn.action.startswith('<tool_call>\n{"name": ')
    drawn = {turn.action_ids for episode in played for turn in episode.turns}
    assert drawn == {reply.action_ids for reply in sampled}
    (row,) = make_batch([site.prepare(played)[0]]).labels_B_T.tolist()
    first = played[0].turns
    assert [i for i in row if i != IGNORED] == [*first[0].action_ids, *first[1].action_ids]
    update = client_round(adapter, site, config, round=2, emit=silent)
    assert update.adapter is not None
    assert update.adapter.digest != adapter.digest


def watch(monkeypatch: pytest.MonkeyPatch) -> list[Reply]:
    """Every reply of the model, from now on, as it left the sampler."""
    from fedse.agent.hf import HFPolicy

    replies: list[Reply] = []
    act = HFPolicy.act

    def watched(self: HFPolicy, *args: Any, **options: Any) -> list[Reply | None]:
        told = act(self, *args, **options)
        replies.extend(reply for reply in told if reply is not None)
        return told

    monkeypatch.setattr(HFPolicy, "act", watched)
    return replies
