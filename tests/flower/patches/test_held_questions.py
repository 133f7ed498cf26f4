"""A node that looks is answered when it is asked; nobody gets the question of another."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from starlette.requests import Request
from starlette.responses import Response

from fedse.flower.patches import held_questions
from fedse.flower.patches.door import ASK, PULL
from fedse.flower.patches.held_questions import HeldQuestions

NEVER: Callable[[], bool] = lambda: False  # noqa: E731


class Link:
    """A SuperLink with the questions of each node; it hands out each once."""

    def __init__(self, ending: Callable[[], bool] = NEVER) -> None:
        self.questions: dict[int, list[bytes]] = {}
        self.looked = 0
        self.asked_meanwhile: list[int] = []
        self.held = HeldQuestions(ending)

    async def _plainly(self, request: Request) -> Response:
        message = request.state.protobuf_request
        if isinstance(message, PullMessagesRequest):
            self.looked += 1
            waiting = self.questions.get(message.node.node_id, [])
            found = waiting.pop(0) if waiting else b""
            while self.asked_meanwhile:
                await self.ask(self.asked_meanwhile.pop())
            return Response(found)
        for one in message.messages_list:
            self.questions.setdefault(one.metadata.dst_node_id, []).append(b"?")
        return Response()

    async def look(self, node: int, gone: bool = False) -> bytes:
        request = _request(PULL, PullMessagesRequest(node=Node(node_id=node)), gone)
        return bytes((await self.held.answer(request, self._plainly)).body)

    async def ask(self, *nodes: int) -> None:
        messages = [Message(metadata=Metadata(dst_node_id=node)) for node in nodes]
        request = _request(ASK, PushAppMessagesRequest(messages_list=messages))
        await self.held.answer(request, self._plainly)


def _request(path: str, message: Any, gone: bool = False) -> Request:
    async def receive() -> Any:
        if gone:
            return {"type": "http.disconnect"}
        return await asyncio.Event().wait()

    scope = {"type": "http", "path": path, "headers": [], "state": {"protobuf_request": message}}
    return Request(scope, receive)


async def _soon(*looks: Any) -> list["asyncio.Task[bytes]"]:
    """Requests that have begun to wait."""
    tasks = [asyncio.create_task(one) for one in looks]
    await asyncio.sleep(0.01)
    return tasks


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_questions, "HELD_SECONDS", 0.2)


def test_a_question_is_handed_out_when_it_is_asked_and_to_nobody_else() -> None:
    async def play() -> None:
        link = Link()
        one, other = await _soon(link.look(1), link.look(2))
        assert not one.done()
        assert link.looked == 2
        await link.ask(1, 3)
        assert await asyncio.wait_for(one, 0.1) == b"?"
        assert not other.done()
        assert await other == b""
        assert link.looked == 3
        assert await link.look(3) == b"?"
        assert link.looked == 4

    asyncio.run(play())


def test_who_was_asked_while_it_looked_is_not_kept_waiting() -> None:
    async def play() -> None:
        link = Link()
        link.asked_meanwhile = [1]
        assert await asyncio.wait_for(link.look(1), 0.1) == b"?"

    asyncio.run(play())


def test_of_two_requests_of_a_node_the_earlier_gets_no_question() -> None:
    async def play() -> None:
        link = Link()
        early, late = await _soon(link.look(1), link.look(1))
        assert early.done()
        assert await early == b""
        await link.ask(1)
        assert await asyncio.wait_for(late, 0.1) == b"?"

    asyncio.run(play())


def test_a_node_that_gave_up_takes_no_question() -> None:
    async def play() -> None:
        link = Link()
        (gone,) = await _soon(link.look(1, gone=True))
        await link.ask(1)
        assert await gone == b""
        assert await link.look(1) == b"?"

    asyncio.run(play())


def test_a_link_that_ends_keeps_nobody_waiting() -> None:
    async def play() -> None:
        link = Link(ending=lambda: True)
        assert await asyncio.wait_for(link.look(1), 0.1) == b""

    asyncio.run(play())


def test_a_link_may_have_as_many_connections_as_its_machine_allows() -> None:
    script = """
import resource
from fedse.flower.patches.held_questions import allow_connections
hard = min(4000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
allow_connections()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    soft, hard = done.stdout.split()
    assert soft == hard, done.stderr
