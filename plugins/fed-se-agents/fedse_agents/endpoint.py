"""An OpenAI-compatible endpoint on 127.0.0.1 that records episodes.

    POST /episodes                              -> {"id", "task", "seed", "base_url", "reward_url"}
    POST /episodes/ID/v1/chat/completions       OpenAI's, with or without "stream": true
    POST /episodes/ID/v1/responses              the same
    GET  /episodes/ID/v1/models
    POST /episodes/ID/reward                    {"reward": 1.0, "success": true} ends the episode;
                                                with roles also "rewards": {"ROLE": 0.5}

`base_url` is the argument of that name of an OpenAI client. POST /episodes needs the endpoint's key
as bearer token and answers 410 when every task has been handed out; an episode's id is its own key.
Every error is a 4xx or 5xx with {"error": {"message", "type", "code", "param"}}. Which parameters
of a request are followed, ignored or refused is in fedse_agents/chat.py and responses.py.
"""

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedse.agent.prompt import Encoder
from fedse.agent.shape import Shape, shape_error
from fedse.errors import MachineError
from fedse.waiting import wait_until
from fedse_agents.answers import Answered, chunks, completion
from fedse_agents.batch_queue import BatchQueue
from fedse_agents.chat import ChatRequest, json_object, parse_request
from fedse_agents.cut_off import ended_after_calls
from fedse_agents.offer import Offer
from fedse_agents.record import Episodes, RecordedEpisode
from fedse_agents.refused import RequestRefused, unsupported
from fedse_agents.responses import (
    Messages,
    after,
    events,
    parse_response_request,
    renamed,
    response,
)
from fedse_agents.rewards import parse_reward

HOST = "127.0.0.1"
MAX_BODY = 4 << 20
"""Bytes; a conversation that fills a context of a million tokens."""
START_SECONDS, END_SECONDS = 10.0, 2


class OpenEndpoint(NamedTuple):
    """Where the endpoint is, and the key that opens episodes there."""

    url: str
    key: str

    def base_url(self, episode: str) -> str:
        return f"{self.url}/episodes/{episode}/v1"

    def reward_url(self, episode: str) -> str:
        return f"{self.url}/episodes/{episode}/reward"


class _Endpoint:
    """The routes, over the episodes of one round and the queue that the policy answers."""

    def __init__(
        self,
        episodes: Episodes,
        desk: BatchQueue,
        encoder: Encoder | None,
        at: OpenEndpoint,
        shapes: bool,
    ) -> None:
        self._episodes, self._desk, self._encoder, self._at = episodes, desk, encoder, at
        self._shapes = shapes
        self._responses: dict[str, dict[str, Messages]] = {}
        """Episode -> id of a response -> the messages up to it."""
        self._end_id = encoder.action("")[-1] if encoder else None

    async def open(self, request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), self._at.key.encode()):
            raise RequestRefused(
                401, "wrong_key", "opening an episode needs Authorization: Bearer KEY"
            )
        opened = self._episodes.open_next(time.monotonic())
        if opened is None:
            raise RequestRefused(
                410, "no_tasks_left", "every task of this round has been handed out"
            )
        key, episode = opened
        task, seed = episode.game.task, episode.game.seed
        urls = {"base_url": self._at.base_url(key), "reward_url": self._at.reward_url(key)}
        return JSONResponse({"id": key, "task": task.id, "seed": seed, **urls}, status_code=201)

    async def chat(self, request: Request) -> Response:
        episode = self._episodes.find(request.path_params["id"])
        asked = parse_request(await _body(request))
        answer = await self._answer(episode, asked, id=f"chatcmpl-{secrets.token_hex(12)}")
        if asked.stream:
            return _events(chunks(answer, usage=asked.usage_in_stream))
        return JSONResponse(completion(answer))

    async def responses(self, request: Request) -> Response:
        episode = self._episodes.find(request.path_params["id"])
        earlier = self._responses.setdefault(request.path_params["id"], {})
        asked = parse_response_request(json_object(await _body(request)), earlier)
        try:
            answer = await self._answer(episode, asked.chat, id=f"resp_{secrets.token_hex(12)}")
        except RequestRefused as refusal:
            raise renamed(refusal) from None
        earlier[answer.id] = after(asked, answer)
        whole = response(asked, answer)
        return _events(events(whole)) if asked.chat.stream else JSONResponse(whole)

    async def _answer(self, episode: RecordedEpisode, asked: ChatRequest, *, id: str) -> Answered:
        offer = asked.offer
        question = episode.ask(asked.conversation, self._encoder, model=asked.model)
        try:
            dialogue = question.dialogue._replace(shape=self._shape(offer))
            sampled = await self._desk.ask(dialogue)
            if sampled is not None and self._encoder is not None:
                sampled = ended_after_calls(sampled, offer, self._encoder)
            reply = episode.take(question, sampled, offer.read)
        except BaseException:
            episode.leave(question)
            raise
        said = offer.read(reply.text)
        return Answered(
            reply,
            said,
            call_ids=tuple(f"call_{secrets.token_hex(12)}" for _ in said.calls),
            model=asked.model or "fedse",
            id=id,
            created=int(time.time()),
            prompt_tokens=question.tokens + len(reply.context_ids),
            cut=self._end_id is not None and reply.action_ids[-1:] != (self._end_id,),
        )

    def _shape(self, offer: Offer) -> Shape | None:
        """The required form of the answer; refused if the policy cannot enforce it."""
        shape = offer.shape()
        if shape is None:
            return None
        error = shape_error(shape) if self._shapes else "this policy cannot constrain its replies"
        if error:
            raise unsupported(offer.shaping_parameter, f"cannot be kept: {error}")
        return shape

    async def models(self, request: Request) -> Response:
        self._episodes.find(request.path_params["id"])
        names = self._episodes.roles or ("fedse",)
        about = {"object": "model", "created": 0, "owned_by": "fedse"}
        data = [{"id": name, **about} for name in names]
        return JSONResponse({"object": "list", "data": data})

    async def reward(self, request: Request) -> Response:
        episode = self._episodes.find(request.path_params["id"])
        end = parse_reward(json_object(await _body(request)), episode.roles)
        episode.close(end)
        kept = episode.recorded
        dropped = episode.answers - kept
        return JSONResponse({"outcome": episode.outcome, "turns": kept, "dropped": dropped})


def make_app(
    episodes: Episodes,
    desk: BatchQueue,
    encoder: Encoder | None,
    at: OpenEndpoint,
    *,
    shapes: bool = False,
) -> Starlette:
    """The endpoint as an ASGI application."""
    here = _Endpoint(episodes, desk, encoder, at, shapes)
    return Starlette(
        routes=[
            Route("/episodes", here.open, methods=["POST"]),
            Route("/episodes/{id}/v1/chat/completions", here.chat, methods=["POST"]),
            Route("/episodes/{id}/v1/responses", here.responses, methods=["POST"]),
            Route("/episodes/{id}/v1/models", here.models, methods=["GET"]),
            Route("/episodes/{id}/reward", here.reward, methods=["POST"]),
        ],
        # Refuses web pages that reach 127.0.0.1 under another name (DNS rebinding).
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
        exception_handlers={RequestRefused: _refused, HTTPException: _not_routed, 500: _broke},
    )


@contextmanager
def listening(
    episodes: Episodes, desk: BatchQueue, encoder: Encoder | None = None, *, shapes: bool = False
) -> Iterator[OpenEndpoint]:
    """The endpoint answers on a free port of 127.0.0.1 until the block is left.

    `shapes`: whether the policy can constrain replies to a required form.
    """
    with socket.socket() as door:
        door.bind((HOST, 0))
        at = OpenEndpoint(f"http://{HOST}:{door.getsockname()[1]}", secrets.token_urlsafe(16))
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(episodes, desk, encoder, at, shapes=shapes),
                log_config=None,
                access_log=False,
                lifespan="off",
                loop="asyncio",
                ws="none",
                timeout_graceful_shutdown=END_SECONDS,
            )
        )
        thread = threading.Thread(target=server.run, args=([door],), daemon=True)
        thread.start()
        try:
            _await_start(server)
            yield at
        finally:
            desk.close()
            server.should_exit = True
            thread.join(END_SECONDS + 1)


def _await_start(server: uvicorn.Server) -> None:
    if not wait_until(lambda: server.started, seconds=START_SECONDS, every=0.005):
        raise MachineError(f"the endpoint on {HOST} did not start in {START_SECONDS:g} s")


def _events(events: list[str]) -> Response:
    return Response("".join(events), media_type="text/event-stream")


async def _body(request: Request) -> bytes:
    """The whole body; what is longer than MAX_BODY is refused before it is read."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise RequestRefused(413, "too_large", f"the body must be at most {MAX_BODY} bytes")
    return bytes(body)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return JSONResponse(error.as_json(), status_code=error.status)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return await _refused(request, RequestRefused(error.status_code, "no_such_route", message))


async def _broke(request: Request, error: Exception) -> Response:
    return await _refused(request, RequestRefused(500, "internal", "the endpoint failed"))
