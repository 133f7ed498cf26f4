"""A server with vLLM's answers that samples nothing: the same words, as soon as they are asked for.

    python -m fedse_serve.instant_engine 8000

To try an application with the gateway where there is no model, and to measure the gateway alone.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from fedse_serve.engine import BASE
from fedse_serve.listening import listening
from fedse_serve.vllm_routes import vllm_app

WORDS = ("Your ", "order ", "is ", "on ", "its ", "way.")
PROMPT = list(range(100, 140))
CALL = {"name": "lookup", "arguments": '{"order": 7}'}


class InstantEngine:
    """Answers with WORDS, token ids and log-probabilities, as the adapter that is asked for."""

    def __init__(
        self, *, adapters: tuple[str, ...] = (BASE,), calls: bool = False, refuses: str = ""
    ) -> None:
        self.adapters, self.calls, self.refuses = {*adapters}, calls, refuses
        self.bodies: list[dict[str, Any]] = []
        self.loaded: list[tuple[str, str]] = []
        self.pause: Callable[[int], asyncio.Future[None] | None] = lambda word: None
        """What is waited for before a word; None = nothing."""
        self.break_at: int | None = None
        """The word at which the connection breaks."""

    def app(self) -> web.Application:
        return vllm_app(
            chat=self._chat, load=self._load, adapters=lambda: sorted(self.adapters), base=BASE
        )

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[str]:
        """The server answers at the address."""
        async with listening(self.app(), port) as url:
            yield url

    async def _load(self, request: web.Request) -> web.Response:
        given = await request.json()
        self.loaded.append((given["lora_name"], given["lora_path"]))
        self.adapters.add(given["lora_name"])
        return web.Response()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if body["model"] not in self.adapters:
            error = {"error": {"message": f"The model `{body['model']}` does not exist."}}
            return web.json_response(error, status=404)
        if self.refuses in body:
            error = {"error": {"message": f"{self.refuses} is not taken here"}}
            return web.json_response(error, status=400)
        about = {"id": "chatcmpl-1", "created": 0, "model": body["model"]}
        if body.get("stream"):
            return await self._stream(request, about)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(WORDS)}
        if self.calls and body["messages"][-1].get("role") != "tool":
            message = {"role": "assistant", "content": None, "tool_calls": [_call()]}
        choice = {"index": 0, "message": message, "finish_reason": "stop", **_tokens(*WORDS)}
        usage = {"prompt_tokens": len(PROMPT), "completion_tokens": len(WORDS), "total_tokens": 46}
        whole = {"object": "chat.completion", "choices": [choice], "usage": usage}
        return web.json_response({**about, **whole, "prompt_token_ids": PROMPT})

    async def _stream(self, request: web.Request, about: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for place, word in enumerate(WORDS):
            if waited := self.pause(place):
                await waited
            if place == self.break_at:
                assert request.transport is not None
                request.transport.abort()
                return response
            end = "stop" if place == len(WORDS) - 1 else None
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": end}
            event: dict[str, Any] = {**about, "object": "chat.completion.chunk"}
            event["choices"] = [{**choice, **_tokens(word)}]
            if not place:
                event["prompt_token_ids"] = PROMPT
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


async def _run(port: int) -> None:
    async with InstantEngine().running(port) as url:
        print(f"an instant engine answers at {url}", flush=True)
        await asyncio.Event().wait()


def _tokens(*words: str) -> dict[str, Any]:
    content = [{"token": word, "logprob": -0.25, "top_logprobs": []} for word in words]
    ids = [WORDS.index(word) for word in words]
    return {"token_ids": ids, "logprobs": {"content": content}}


def _call() -> dict[str, Any]:
    return {"id": "call-1", "type": "function", "function": CALL}


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
