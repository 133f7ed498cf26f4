"""A request to the SuperLink is answered in one task, not in one more for each of its middlewares.

Flower hands every request through nine middlewares, for each of which Starlette starts tasks and a
channel between them, so that a middleware could change an answer that is still being sent. The
answer to a node, or to the server's app, is one message. So for these the same middlewares are
called one inside the other, in the same order.

Only a few are answered at a time, in the order in which they came; the others wait before they are
read. When hundreds of sites ask at once, a SuperLink that begins with all of them answers each so
late that its site has given up and asks again, and nobody is served. Heartbeats do not wait for
other requests: a node gives them up after five seconds, and without them it counts as gone, with
whatever it was asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fedse.flower.patches.door import FLEET, HEARTBEAT, REMOVE

TURNS = (HEARTBEAT, FLEET, "/v1/runtime/", REMOVE)
"""That a node is there, what else nodes ask, what the server's app asks, that a node is removed.
The first that fits counts, and none of them waits for another."""
AT_ONCE = 8
"""Of each way."""

App = Callable[[Any, Any, Any], Awaitable[None]]
Answer = Callable[[Request], Awaitable[Response]]
Dispatch = Callable[[Request, Answer], Awaitable[Response]]


class Way(Protocol):
    """Answers a request, by `answer` or instead of it."""

    async def answer(self, request: Request, answer: Answer) -> Response: ...


def answer_in_one_task(app: Any, *ways: Way) -> None:
    """This app of Flower's does so from now on; its middlewares are those that it has now.

    Each of `ways` is around the next, and the last around the middlewares.
    """
    stack = app.build_middleware_stack()
    dispatches, inside = _dispatches(stack.app)
    answer: Answer = partial(_answer_of, inside)
    for dispatch in reversed(dispatches):
        answer = _around(answer, dispatch)
    answer = _Turns(answer).answer
    for way in reversed(ways):
        answer = partial(way.answer, answer=answer)
    app.middleware_stack = _OneTask(stack, answer)


def _dispatches(outermost: Any) -> tuple[Sequence[Dispatch], App]:
    """What the middlewares do, outermost first, and the app that they are around."""
    found, layer = [], outermost
    while isinstance(layer, BaseHTTPMiddleware):
        found.append(layer.dispatch_func)
        layer = layer.app
    return found, layer


def _around(inside: Answer, dispatch: Dispatch) -> Answer:
    return lambda request: dispatch(request, inside)


class _Turns:
    """Of each way a few requests are answered at a time."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._turns = {way: asyncio.Semaphore(AT_ONCE) for way in TURNS}

    async def answer(self, request: Request) -> Response:
        path = request.scope["path"]
        async with next(turn for way, turn in self._turns.items() if path.startswith(way)):
            await request.body()
            if await request.is_disconnected():
                raise ClientDisconnect  # nobody waits for the answer any more
            return await self._answer(request)


class _OneTask:
    def __init__(self, usual: App, answer: Answer) -> None:
        self._usual, self._answer = usual, answer

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(TURNS):
            await self._usual(scope, receive, send)
            return
        try:
            response = await self._answer(Request(scope, receive))
        except ClientDisconnect:
            return
        await response(scope, receive, send)


async def _answer_of(app: App, request: Request) -> Response:
    """What `app` answers; it may read the body again."""
    response = Response()
    parts: list[bytes] = []
    unread = [{"type": "http.request", "body": await request.body(), "more_body": False}]

    async def receive() -> Any:
        return unread.pop() if unread else await request.receive()

    async def note(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            response.status_code = message["status"]
            response.raw_headers = list(message["headers"])
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(request.scope, receive, note)
    response.body = b"".join(parts)
    return response
