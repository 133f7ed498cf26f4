"""A node that looks for a question, when there is none, is answered as soon as there is one.

Flower's SuperNode looks every three seconds. Each time the SuperLink checks a signature and writes
to its database, which for many waiting sites is most of its work, and a site begins up to three
seconds late. Here an empty answer is kept back for some seconds, or until the server's app asks
this node something.

Flower hands out a question once. So a node that gave up is not answered again, and of two requests
of one node the earlier gets none.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fedse.flower.patches.door import ASK, PULL
from fedse.flower.patches.one_task import Answer

HELD_SECONDS = 20.0
"""From when the request came; a SuperNode gives up after 30."""
FILES = 65_536
"""Connections and files of a SuperLink: each node that waits has one."""


def allow_connections() -> None:
    """This process may have so many open, or as many as its machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class HeldQuestions:
    """The nodes that wait for a question, each with what tells it that there is one."""

    def __init__(self, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._asked = 0

    async def answer(self, request: Request, answer: Answer) -> Response:
        """What `answer` answers; if that is nothing for a node, what it answers later."""
        path = request.scope["path"]
        if path == PULL:
            return await self._question(request, answer)
        response = await answer(request)
        if path == ASK and response.status_code == 200:
            self._note(request.state.protobuf_request)
        return response

    async def _question(self, request: Request, answer: Answer) -> Response:
        until, asked = asyncio.get_running_loop().time() + HELD_SECONDS, self._asked
        response = await answer(request)
        if response.status_code != 200 or response.body:
            return response
        # Somebody was asked meanwhile: maybe this node, after it was looked up.
        missed = asked != self._asked
        node = request.state.protobuf_request.node.node_id
        if not (missed or await self._is_asked(node, until)) or await request.is_disconnected():
            return response
        return await answer(request)

    async def _is_asked(self, node: int, until: float) -> bool:
        """Whether the node is asked something until then, and has not looked again."""
        self._tell(node, False)
        loop = asyncio.get_running_loop()
        told = self._waiting[node] = loop.create_future()
        try:
            while not told.done() and not self._ending() and loop.time() < until:
                await asyncio.wait([told], timeout=min(1.0, max(0.0, until - loop.time())))
            return told.done() and told.result()
        finally:
            if self._waiting.get(node) is told:
                del self._waiting[node]

    def _note(self, request: Any) -> None:
        """The server's app has asked these nodes."""
        self._asked += 1
        for one in request.messages_list:
            self._tell(one.metadata.dst_node_id, True)

    def _tell(self, node: int, asked: bool) -> None:
        told = self._waiting.pop(node, None)
        if told and not told.done():
            told.set_result(asked)
