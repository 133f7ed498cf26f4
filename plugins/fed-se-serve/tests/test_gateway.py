"""The gateway between an application and an engine that answers at once."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("aiohttp", "openai", "langgraph", "langchain_openai")

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fedse_serve.asked import Asked
from fedse_serve.engine import Engine
from fedse_serve.gateway import Gateway, Taken, make_app
from fedse_serve.instant_engine import PROMPT, WORDS, InstantEngine
from fedse_serve.keys import add_key, read_keys
from fedse_serve.serving import Served

ASKED = {"model": "shop", "messages": [{"role": "user", "content": "Where is my order?"}]}
IDS = [*range(len(WORDS))]


class Kept:
    """A record in memory."""

    def __init__(self) -> None:
        self.turns: list[Taken] = []
        self.well = True
        self.disk: Awaitable[None] | None = None
        """What the end of an answer waits for."""

    def recording(self) -> bool:
        return self.well

    def turn(self, taken: Taken) -> Awaitable[None] | None:
        self.turns.append(taken)
        return self.disk

    async def feedback(self, raw: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        return {"feedback_id": "1"}


@asynccontextmanager
async def serving(
    engine: InstantEngine, kept: Kept, *, adapter: str = "base", keys: Mapping[str, str] = {}
) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of a gateway before `engine`."""
    async with engine.running() as url:
        behind = Engine(url, lambda digest: Path("/adapters") / digest, seconds=5)
        async with behind.open():
            gateway = Gateway(
                behind,
                kept,
                lambda asked: Served(asked.session, "stable", adapter),
                keys,
                clock=lambda: 0.0,
            )
            async with TestClient(TestServer(make_app(gateway))) as client:
                yield client


def test_an_answer_is_the_engines_without_its_tokens_which_are_recorded() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        async with serving(engine, kept) as client:
            answer = await client.post("/v1/chat/completions", json=ASKED)
            told = await answer.json()
        assert told["choices"][0]["message"]["content"] == "".join(WORDS)
        assert told["model"] == "shop"
        assert "token_ids" not in json.dumps(told)
        assert told["choices"][0]["logprobs"] is None
        assert answer.headers["x-fedse-arm"] == "stable"
        assert answer.headers["x-fedse-adapter"] == "base"
        (turn,) = kept.turns
        assert turn.id == answer.headers["x-fedse-inference-id"]
        assert turn.served.session == answer.headers["x-fedse-session-id"]
        assert turn.told.prompt_ids == PROMPT
        assert turn.told.action_ids == IDS
        assert turn.told.log_chances == [-0.25] * len(WORDS)
        assert turn.told.adapter == "base"
        assert turn.told.exact
        assert not turn.broke
        assert engine.bodies[0]["model"] == "base"

    asyncio.run(play())


def test_a_streamed_answer_comes_word_by_word_and_leaves_the_same_record() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        gates = [asyncio.get_running_loop().create_future() for _ in WORDS]
        engine.pause = lambda word: gates[word]
        async with serving(engine, kept) as client:
            gates[0].set_result(None)
            answer = await client.post("/v1/chat/completions", json={**ASKED, "stream": True})
            words: list[str] = []
            async for line in answer.content:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                assert "token_ids" not in line.decode()
                words.append(event["choices"][0]["delta"]["content"])
                # The engine goes on only when this word has arrived.
                if len(words) < len(WORDS):
                    gates[len(words)].set_result(None)
            assert words == [*WORDS]
        (turn,) = kept.turns
        assert (turn.told.prompt_ids, turn.told.action_ids) == (PROMPT, IDS)
        assert turn.told.log_chances == [-0.25] * len(WORDS)
        assert turn.told.exact
        assert not turn.broke

    asyncio.run(play())


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_of_an_answer_waits_for_its_record_and_nothing_else_does(stream: bool) -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        disk = kept.disk = asyncio.get_running_loop().create_future()
        async with serving(engine, kept) as client:
            asking = client.post("/v1/chat/completions", json={**ASKED, "stream": stream})
            answer = asyncio.create_task(asking)
            if stream:
                content = (await answer).content
                early = b"".join([await content.readline() for _ in range(2 * len(WORDS) - 2)])
                assert WORDS[-2].encode() in early
                late = asyncio.create_task(content.read())
            else:
                late = answer  # type: ignore[assignment]
            await asyncio.sleep(0.05)
            assert not late.done()
            disk.set_result(None)
            await late

    asyncio.run(play())


@pytest.mark.parametrize(
    ("metadata", "headers", "session"),
    [
        ({"session_id": "a"}, {"x-fedse-session-id": "b", "x-litellm-session-id": "c"}, "a"),
        ({}, {"x-fedse-session-id": "b", "x-litellm-session-id": "c"}, "b"),
        ({}, {"x-litellm-session-id": "c"}, "c"),
    ],
)
def test_who_names_a_session(
    metadata: dict[str, str], headers: dict[str, str], session: str
) -> None:
    async def play() -> None:
        kept = Kept()
        async with serving(InstantEngine(), kept) as client:
            body = {**ASKED, "metadata": metadata}
            answer = await client.post("/v1/chat/completions", json=body, headers=headers)
            assert answer.headers["x-fedse-session-id"] == session
        assert kept.turns[0].asked.named

    asyncio.run(play())


def test_sessions_without_a_name_are_all_different() -> None:
    async def play() -> None:
        kept = Kept()
        async with serving(InstantEngine(), kept) as client:
            for _ in range(3):
                await client.post("/v1/chat/completions", json=ASKED)
        assert len({turn.served.session for turn in kept.turns}) == 3

    asyncio.run(play())


def test_an_adapter_that_the_engine_has_lost_is_loaded_again_under_its_digest() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        async with serving(engine, kept, adapter="d1") as client:
            answers = [await client.post("/v1/chat/completions", json=ASKED) for _ in range(2)]
            assert [answer.status for answer in answers] == [200, 200]
        assert engine.loaded == [("d1", "/adapters/d1")]
        assert [turn.told.adapter for turn in kept.turns] == ["d1", "d1"]

    asyncio.run(play())


def before(engine: Engine, kept: Kept) -> Gateway:
    """A gateway that asks one adapter of this engine for everything."""

    def serve(asked: Asked) -> Served:
        return Served(asked.session, "stable", "x")

    return Gateway(engine, kept, serve, {}, clock=lambda: 0.0)


def test_an_engine_that_is_gone_is_a_503_that_says_when_to_try_again() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        async with engine.running() as url:
            behind = Engine(url, lambda digest: None, seconds=5)
        async with behind.open():
            gateway = before(behind, kept)
            async with TestClient(TestServer(make_app(gateway))) as client:
                answer = await client.post("/v1/chat/completions", json=ASKED)
                told = await answer.json()
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert told["error"]["code"] == "engine_gone"
        assert kept.turns == []

    asyncio.run(play())


def test_an_engine_that_dies_while_it_is_asked_is_on_record() -> None:
    async def play() -> None:
        async def hang_up(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.close()
            raise ConnectionResetError

        app, kept = web.Application(), Kept()
        app.router.add_post("/v1/chat/completions", hang_up)
        async with TestServer(app) as dying:
            behind = Engine(str(dying.make_url("")), lambda digest: None, seconds=5)
            async with behind.open():
                gateway = before(behind, kept)
                async with TestClient(TestServer(make_app(gateway))) as client:
                    answer = await client.post("/v1/chat/completions", json=ASKED)
        assert answer.status == 503
        assert [turn.broke for turn in kept.turns] == [True]

    asyncio.run(play())


def test_an_engine_that_breaks_off_in_a_stream_ends_it_with_an_error() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        engine.break_at = 3
        async with serving(engine, kept) as client:
            answer = await client.post("/v1/chat/completions", json={**ASKED, "stream": True})
            text = (await answer.read()).decode()
        assert '"engine_gone"' in text
        assert text.endswith("data: [DONE]\n\n")
        (turn,) = kept.turns
        assert turn.broke
        assert not turn.told.exact
        assert turn.told.action_ids == IDS[:3]

    asyncio.run(play())


def test_a_request_that_the_engine_refuses_is_no_turn() -> None:
    async def play() -> None:
        kept = Kept()
        async with serving(InstantEngine(refuses="max_tokens"), kept) as client:
            answer = await client.post("/v1/chat/completions", json={**ASKED, "max_tokens": 1})
            error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (400, "engine_refused")
        assert error["message"] == "max_tokens is not taken here"
        assert not kept.turns

    asyncio.run(play())


def test_if_recording_fails_serving_goes_on_and_says_so() -> None:
    async def play() -> None:
        kept = Kept()
        kept.well = False
        async with serving(InstantEngine(), kept) as client:
            answer = await client.post("/v1/chat/completions", json=ASKED)
            health = await (await client.get("/health")).json()
        assert (answer.status, answer.headers["x-fedse-recorded"]) == (200, "no")
        assert health == {"engine": True, "recording": False}

    asyncio.run(play())


def test_only_an_application_with_its_key_is_served(tmp_path: Path) -> None:
    async def play() -> None:
        old, key = add_key(tmp_path, "shop"), add_key(tmp_path, "shop")
        kept = Kept()
        async with serving(InstantEngine(), kept, keys=read_keys(tmp_path)) as client:
            given = ["", "Bearer nonsense", f"Bearer {old}", f"Bearer {key}"]
            statuses = [
                (
                    await client.post(
                        "/v1/chat/completions", json=ASKED, headers={"authorization": one}
                    )
                ).status
                for one in given
            ]
        assert statuses == [401, 401, 401, 200]
        assert [turn.application for turn in kept.turns] == ["shop"]
        assert key not in (tmp_path / "applications.json").read_text()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (b"{", None),
        (b'{"messages": []}', "messages"),
        (b'{"messages": [{}], "n": 2}', "n"),
        (b'{"messages": [{}], "metadata": 3}', "metadata"),
        (b'{"messages": [{}], "metadata": {"session_id": "a\\u0000"}}', "session_id"),
    ],
)
def test_what_cannot_be_served_is_refused_in_openais_form(body: bytes, param: str | None) -> None:
    async def play() -> None:
        kept = Kept()
        async with serving(InstantEngine(), kept) as client:
            answer = await client.post("/v1/chat/completions", data=body)
            error = (await answer.json())["error"]
        assert (answer.status, error["param"]) == (400, param)
        assert not kept.turns

    asyncio.run(play())


def test_the_official_client_streams_and_calls_tools() -> None:
    import openai

    async def play() -> None:
        engine, kept = InstantEngine(calls=True), Kept()
        async with serving(engine, kept) as client:
            official = openai.AsyncOpenAI(base_url=str(client.make_url("/v1")), api_key="none")
            tool = {"type": "function", "function": {"name": "lookup", "parameters": {}}}
            called = await official.chat.completions.create(**ASKED, tools=[tool])
            stream = await official.chat.completions.create(**ASKED, stream=True)
            words = [chunk.choices[0].delta.content async for chunk in stream]
            await official.close()
        assert called.choices[0].message.tool_calls[0].function.name == "lookup"
        assert words == [*WORDS]
        assert kept.turns[0].told.calls == {0: ["lookup", '{"order": 7}']}
        assert [turn.told.exact for turn in kept.turns] == [True, True]

    asyncio.run(play())


def test_a_langgraph_agent_calls_its_tool_and_all_its_turns_are_one_session() -> None:
    import openai
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    def lookup(order: int) -> str:
        """Where an order is."""
        return f"order {order} left the shop"

    async def play() -> None:
        engine, kept = InstantEngine(calls=True), Kept()
        async with serving(engine, kept) as client, openai.DefaultAsyncHttpxClient() as http:
            model = ChatOpenAI(
                model="shop",
                base_url=str(client.make_url("/v1")),
                api_key="none",
                http_async_client=http,
                default_headers={"x-fedse-session-id": "graph"},
            ).bind_tools([lookup])

            async def ask(state: MessagesState) -> dict[str, Any]:
                return {"messages": [await model.ainvoke(state["messages"])]}

            graph = StateGraph(MessagesState)
            graph.add_node("ask", ask)
            graph.add_node("tools", ToolNode([lookup]))
            graph.add_edge(START, "ask")
            graph.add_conditional_edges("ask", tools_condition)
            graph.add_edge("tools", "ask")
            ended = await graph.compile().ainvoke({"messages": [("user", "Where is order 7?")]})
        assert ended["messages"][-1].content == "".join(WORDS)
        assert [message.type for message in ended["messages"]] == ["human", "ai", "tool", "ai"]
        assert [turn.served.session for turn in kept.turns] == ["graph", "graph"]
        assert [bool(turn.told.calls) for turn in kept.turns] == [True, False]
        assert engine.bodies[1]["messages"][-1]["content"] == "order 7 left the shop"

    asyncio.run(play())


def test_an_application_that_leaves_ends_the_engines_work() -> None:
    async def play() -> None:
        engine, kept = InstantEngine(), Kept()
        never = asyncio.get_running_loop().create_future()
        engine.pause = lambda word: never if word == 2 else None
        async with serving(engine, kept) as client:
            answer = await client.post("/v1/chat/completions", json={**ASKED, "stream": True})
            await answer.content.readline()
            answer.close()
            never.set_result(None)
            for _ in range(200):
                if kept.turns:
                    break
                await asyncio.sleep(0.01)
        (turn,) = kept.turns
        assert turn.broke
        assert not turn.told.exact

    asyncio.run(play())
