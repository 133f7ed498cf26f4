"""The engine for machines without vLLM, as the gateway sees it."""

import asyncio
from pathlib import Path
from typing import Any

from tests.needs import needs

needs("torch", "transformers", "peft", "aiohttp", "jsonschema", "llguidance")

from aiohttp.test_utils import TestClient, TestServer
from test_gateway import Kept
from test_service import adapter_of

from fedse.adapters.base import base_path
from fedse.adapters.peft_folder import export_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.policy import Dialogue
from fedse_serve.engine import Engine
from fedse_serve.gateway import Gateway, make_app
from fedse_serve.own_engine import OwnEngine
from fedse_serve.serving import Served

ASKED = {"max_tokens": 8, "temperature": 0.0}
QUESTION = "at 1 1 goal down 2 open up down"
LOUD = 60.0
KEYED = {"Authorization": "Bearer sesame"}


def shown(text: str) -> dict[str, Any]:
    return {**ASKED, "messages": [{"role": "user", "content": text}]}


def test_what_is_told_is_what_the_adapter_samples(tmp_path: Path) -> None:
    adapter = adapter_of(1, scale=LOUD)
    folder = export_adapter(adapter, tmp_path / adapter.digest)

    async def play() -> tuple[list[Any], Kept]:
        kept, arms = Kept(), ["base", adapter.digest, adapter.digest, "base"]
        async with OwnEngine("tiny", context=256).running(0) as url:
            behind, names = Engine(url, lambda digest: folder, seconds=60), iter(arms)
            serve = Gateway(
                behind,
                kept,
                lambda asked: Served(asked.session, "stable", next(names)),
                {},
                clock=lambda: 0.0,
            )
            async with behind.open(), TestClient(TestServer(make_app(serve))) as client:
                told = []
                for number in range(len(arms)):
                    body = {**shown(QUESTION), "stream": number == 2}
                    answer = await client.post("/v1/chat/completions", json=body)
                    assert answer.status == 200, await answer.text()
                    told.append(await answer.read())
        return told, kept

    _, kept = asyncio.run(play())
    policy = HFPolicy(
        engine_for(base_path("tiny"), adapter.spec),
        adapter,
        temperature=0.0,
        context=256,
        new_tokens=8,
    )
    (reply,) = policy.act([Dialogue("", (), QUESTION)], seed=0)
    assert reply is not None
    first, own, streamed, last = (turn.told for turn in kept.turns)
    assert tuple(own.prompt_ids) == reply.context_ids
    assert tuple(own.action_ids) == reply.action_ids
    assert (streamed.action_ids, streamed.log_chances) == (own.action_ids, own.log_chances)
    assert (first.action_ids, first.adapter) == (last.action_ids, "base")
    assert first.action_ids != own.action_ids
    assert all(turn.told.exact for turn in kept.turns)
    assert own.adapter == adapter.digest


def test_requests_that_come_together_are_answered_as_if_they_came_alone() -> None:
    async def play(together: bool) -> list[list[int]]:
        kept = Kept()
        async with OwnEngine("tiny", context=256).running(0) as url:
            behind = Engine(url, lambda digest: None, seconds=60)
            gateway = Gateway(
                behind, kept, lambda a: Served(a.session, "stable", "base"), {}, clock=lambda: 0.0
            )
            async with behind.open(), TestClient(TestServer(make_app(gateway))) as client:
                asked = [
                    client.post(
                        "/v1/chat/completions",
                        json=shown(f"{QUESTION} {number}"),
                        headers={"x-fedse-session-id": str(number)},
                    )
                    for number in range(4)
                ]
                if together:
                    await asyncio.gather(*asked)
                else:
                    for one in asked:
                        await one
        turns = sorted(kept.turns, key=lambda turn: turn.served.session)
        return [turn.told.action_ids for turn in turns]

    assert asyncio.run(play(True)) == asyncio.run(play(False))


def test_every_route_asks_for_the_key_of_the_engine() -> None:
    async def statuses() -> list[set[int]]:
        app = OwnEngine("tiny", context=256, key="sesame").app()
        routes = [
            (one.method, one.resource.canonical) for one in app.router.routes() if one.resource
        ]
        assert len(routes) > 4
        async with TestClient(TestServer(app)) as client:
            return [
                {
                    (await client.request(method, path, json={}, headers=given)).status
                    for method, path in routes
                }
                for given in ({}, {"Authorization": "Bearer open"}, KEYED)
            ]

    none, wrong, right = asyncio.run(statuses())
    assert none == wrong == {401}
    assert 401 not in right
