"""A heartbeat is answered without the database only if it is like one that Flower has answered."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER as KEY
from flwr.supercore.constant import FLEET_HTTP_SIGNATURE_HEADER as SIGNATURE
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from starlette.requests import Request
from starlette.responses import Response

from fedse.flower.patches.door import HEARTBEAT, LEAVE, REMOVE, HeardNodes
from fedse.flower.patches.quick_heartbeats import EVERY_SECONDS, QuickHeartbeats

KEYS, OTHERS = generate_key_pairs(), generate_key_pairs()


class Link:
    """How often Flower is asked, by a clock that a test turns."""

    def __init__(self) -> None:
        self.now, self.asked, self.status = 0.0, 0, 200
        clock = lambda: self.now  # noqa: E731
        self.heard = HeardNodes(None, clock=clock, ticks=clock)
        self.quick = QuickHeartbeats(self.heard, clock)

    async def plainly(self, request: Request) -> Response:
        self.asked += 1
        request.state.protobuf_request = SendNodeHeartbeatRequest.FromString(await request.body())
        return Response(f"answer {self.asked}", status_code=self.status)

    def beat(self, **what: Any) -> bytes:
        """What is answered to a signed heartbeat."""
        request = signed_beat(**what)
        return bytes(asyncio.run(self.quick.answer(request, self.plainly)).body)


def signed_beat(node: int = 1, keys: Any = KEYS, path: str = HEARTBEAT, **changed: str) -> Request:
    """Some of its headers are changed."""
    import httpx

    message = SendNodeHeartbeatRequest(node=Node(node_id=node), heartbeat_interval=30)
    sent = httpx.Request("POST", "http://link")
    context = ProtobufRequestContext(path, message, sent)
    NodeAuthHttpInterceptor(*keys).intercept(context, lambda one: one)
    headers = {**sent.headers, **changed}

    async def receive() -> Any:
        body = message.SerializeToString()
        return {"type": "http.request", "body": body, "more_body": False}

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "path": path, "headers": raw, "state": {}}, receive)


def test_flower_answers_one_in_25_seconds_and_the_node_is_heard_each_time() -> None:
    link = Link()
    assert link.beat() == link.beat() == b"answer 1"
    link.now = EVERY_SECONDS - 0.1
    assert link.beat() == b"answer 1"
    link.now = EVERY_SECONDS
    assert link.beat() == b"answer 2"
    assert link.heard.forget(1)


@pytest.mark.parametrize(
    "other",
    [
        {"node": 2},
        {"keys": OTHERS},
        {"keys": OTHERS, KEY: "that of the node"},
        {SIGNATURE: "AAAA"},
        {SIGNATURE: "é"},
        {TIMESTAMP_HEADER: datetime.now(UTC).isoformat()},
        {TIMESTAMP_HEADER: "soon"},
        {TIMESTAMP_HEADER: "2026-01-01"},
    ],
)
def test_what_is_not_like_it_or_not_signed_goes_to_flower(other: dict[str, Any]) -> None:
    link = Link()
    link.beat()
    if KEY in other:
        from base64 import b64encode

        other = {**other, KEY: b64encode(public_key_to_bytes(KEYS[1])).decode()}
    assert link.beat(**other) == b"answer 2"


def test_an_old_signature_goes_to_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link()
    link.beat()
    from flwr.supernode import node_auth_http_interceptor as signing

    monkeypatch.setattr(signing, "now", lambda: datetime.now(UTC) - timedelta(seconds=61))
    assert link.beat() == b"answer 2"


def test_a_refusal_is_not_remembered_and_who_left_is_forgotten() -> None:
    link = Link()
    link.status = 401
    assert (link.beat(), link.beat()) == (b"answer 1", b"answer 2")
    link.status = 200
    assert link.beat() == link.beat() == b"answer 3"
    assert link.beat(path=LEAVE) == b"answer 4"
    assert link.beat() == b"answer 5"


def test_once_a_node_is_removed_flower_answers_every_node() -> None:
    link = Link()
    assert link.beat() == link.beat() == b"answer 1"
    assert link.beat(keys=OTHERS) == b"answer 2"
    link.beat(path=REMOVE)
    assert (link.beat(), link.beat(keys=OTHERS)) == (b"answer 4", b"answer 5")


def test_a_heartbeat_that_was_answered_while_a_node_was_removed_is_not_believed() -> None:
    link = Link()

    async def removed_meanwhile(request: Request) -> Response:
        answer = await link.plainly(request)
        if request.scope["path"] == HEARTBEAT:
            await link.quick.answer(signed_beat(path=REMOVE), link.plainly)
        return answer

    asyncio.run(link.quick.answer(signed_beat(), removed_meanwhile))
    assert link.beat() == b"answer 3"
