"""An OpenAI-compatible server in front of vLLM that records what was sampled.

    POST /v1/chat/completions    OpenAI's, with or without "stream": true
    POST /v1/responses           the same
    POST /v1/feedback            {"metric_name", "value", "episode_id" or "inference_id", "tags"}
    GET  /v1/models              `fedse`, or the roles of the agent
    GET  /health                 whether the engine answers and whether turns are recorded

A session's id is `metadata.session_id`, else the header x-fedse-session-id, else
x-litellm-session-id, else a new one; the answer's headers x-fedse-session-id, x-fedse-inference-id,
x-fedse-adapter, x-fedse-arm and x-fedse-recorded say what became of the request. The end of an
answer is sent when its turn is on disk, and nothing before that waits. If recording fails, serving
goes on. Whatever is refused has OpenAI's error body.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import aiohttp
from aiohttp import web

from fedse.types import Clock
from fedse_serve.asked import Asked, Refused, Route, parse_asked
from fedse_serve.engine import Engine, gone
from fedse_serve.keys import application_of
from fedse_serve.roles import role_asked
from fedse_serve.serving import Served
from fedse_serve.told import DONE, Told

RECORD_SECONDS = 1.0
"""How long the end of an answer waits for its record; a disk takes milliseconds."""
MAX_BODY = 8 << 20
"""Bytes; a conversation that fills a context of a million tokens."""
ROUTES: Mapping[str, Route] = {
    "/v1/chat/completions": "chat/completions",
    "/v1/responses": "responses",
}
UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection to the engine came about."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Taken(NamedTuple):
    """One turn that was answered, for the record."""

    id: str
    served: Served
    asked: Asked
    application: str
    told: Told
    at: float
    """When it was asked, seconds since 1970."""
    seconds: float
    """From the request to the answer's end."""
    broke: bool = False
    """Whether engine or application left before the answer's end."""


class Recorder(Protocol):
    """Where turns and feedback go; it never makes a turn wait."""

    def recording(self) -> bool:
        """Whether what came last was recorded."""
        ...

    def turn(self, taken: Taken) -> Awaitable[None] | None:
        """What is over when the turn is on disk; None = it was lost, and counted as such."""
        ...

    async def feedback(self, raw: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The answer to feedback, which is on disk."""
        ...


class Turn:
    """A turn on its way: it is recorded once, before the end of its answer is sent."""

    def __init__(
        self, recorder: Recorder, served: Served, asked: Asked, application: str, *, at: float
    ) -> None:
        self.served, self.told = served, Told(asked)
        self._recorder, self._application, self._at = recorder, application, at
        self._id, self._began = f"turn-{secrets.token_hex(12)}", time.perf_counter()
        self._recording: Awaitable[None] | None = None
        self._taken = False

    @property
    def headers(self) -> dict[str, str]:
        """What the application is told about the turn."""
        return {
            "x-fedse-session-id": self.served.session,
            "x-fedse-inference-id": self._id,
            "x-fedse-adapter": self.served.adapter,
            "x-fedse-arm": self.served.arm,
            "x-fedse-recorded": "yes" if self._recorder.recording() else "no",
        }

    def keep(self) -> None:
        """The turn is on its way to the disk; one whose answer has not ended has broken off."""
        if self._taken:
            return
        self._taken = True
        told, broke = self.told, not self.told.finish
        seconds = time.perf_counter() - self._began
        about = (self.served, told.asked, self._application, told, self._at, seconds)
        self._recording = self._recorder.turn(Taken(self._id, *about, broke=broke))

    def drop(self) -> None:
        """The request was at fault, so there was no turn."""
        self._taken = True

    async def kept(self) -> None:
        """The turn is on disk, unless that takes longer than anybody should wait."""
        self.keep()
        if self._recording is not None:
            recording, self._recording = self._recording, None
            with suppress(TimeoutError):
                await asyncio.wait_for(recording, RECORD_SECONDS)


class Gateway:
    """The routes over one engine, one record, and whoever is to serve."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        serve: Callable[[Asked], Served],
        keys: Mapping[str, str],
        *,
        clock: Clock,
        roles: Sequence[str] = (),
        name_of: Callable[[str, str], str] = lambda adapter, role: adapter,
    ) -> None:
        """`name_of` gives the engine's name for the block of an adapter in which a role acts."""
        self._engine, self._recorder, self._serve, self._keys = engine, recorder, serve, keys
        self._clock, self._roles, self._name_of = clock, tuple(roles), name_of

    async def turn(self, request: web.Request) -> web.StreamResponse:
        application = self._application(request)
        asked = parse_asked(ROUTES[request.path], await request.read(), request.headers)
        asked = asked._replace(role=role_asked(asked.model, self._roles))
        turn = Turn(self._recorder, self._serve(asked), asked, application, at=self._clock())
        try:
            name = self._name_of(turn.served.adapter, asked.role)
            async with self._engine.ask(asked.route, name, asked.body) as answer:
                if asked.stream:
                    return await self._stream(request, answer, turn)
                whole = turn.told.whole(await answer.json())
                await turn.kept()
                return web.json_response(whole, headers=turn.headers)
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, TimeoutError) as error:
            raise gone(error) from error
        except Refused as refusal:
            # Without an engine nothing was sampled, and an application that tries again and again
            # would fill the record.
            if refusal.status < 500 or isinstance(refusal.__cause__, UNREACHED):
                turn.drop()
            raise
        finally:
            turn.keep()

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, turn: "Turn"
    ) -> web.StreamResponse:
        """Every event is sent on when it comes; an engine that breaks off is an error event."""
        kind = {"content-type": "text/event-stream", "cache-control": "no-cache"}
        response = web.StreamResponse(headers={**turn.headers, **kind})
        await response.prepare(request)
        try:
            async for line in answer.content:
                if line.startswith(b"event:"):
                    await response.write(line)
                elif line.startswith(b"data:"):
                    event = turn.told.chunk(line[5:].strip())
                    if turn.told.finish:
                        await turn.kept()
                    if event is not None:
                        await response.write(b"data: " + event + b"\n\n")
        except (aiohttp.ClientError, TimeoutError) as error:
            refusal = json.dumps(gone(error).as_json()).encode()
            await response.write(b"data: " + refusal + b"\n\ndata: " + DONE + b"\n\n")
        await response.write_eof()
        return response

    async def feedback(self, request: web.Request) -> web.StreamResponse:
        self._application(request)
        told = await self._recorder.feedback(await request.read(), request.headers)
        return web.json_response(told)

    async def models(self, request: web.Request) -> web.StreamResponse:
        self._application(request)
        about = {"object": "model", "created": 0, "owned_by": "fedse"}
        models = [{"id": name, **about} for name in self._roles or ("fedse",)]
        return web.json_response({"object": "list", "data": models})

    async def health(self, request: web.Request) -> web.StreamResponse:
        engine, recording = await self._engine.answers(), self._recorder.recording()
        status = 200 if engine else 503
        return web.json_response({"engine": engine, "recording": recording}, status=status)

    def _application(self, request: web.Request) -> str:
        found = application_of(request.headers.get("authorization", ""), self._keys)
        if found is None:
            raise Refused(401, "wrong_key", "expected Authorization: Bearer KEY with a known key")
        return found


def make_app(gateway: Gateway) -> web.Application:
    """The gateway as an application of aiohttp."""
    app = web.Application(middlewares=[_refusals], client_max_size=MAX_BODY)
    for path in ROUTES:
        app.router.add_post(path, gateway.turn)
    app.router.add_post("/v1/feedback", gateway.feedback)
    app.router.add_get("/v1/models", gateway.models)
    app.router.add_get("/health", gateway.health)
    return app


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What is refused is answered with OpenAI's error body."""
    try:
        return await handler(request)
    except Refused as refusal:
        headers = {"Retry-After": str(refusal.retry)} if refusal.retry else {}
        return web.json_response(refusal.as_json(), status=refusal.status, headers=headers)
    except web.HTTPException as error:
        message = f"{request.method} {request.path}: {error.reason}"
        told = Refused(error.status, "no_such_route", message)
        return web.json_response(told.as_json(), status=error.status)
