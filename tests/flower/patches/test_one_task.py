"""What the SuperLink answers in one task is what it answers in Flower's own way, whatever it is."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from flwr.proto.control_pb2 import UnregisterNodeRequest
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.superlink import config_loader
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedse.flower.messages.bounds import reply_bounds
from fedse.flower.ops.guarded_superlink import PROGRAM, guarded_app
from fedse.flower.patches.door import (
    ASK,
    ENTER,
    FLEET,
    HEARTBEAT,
    LEAVE,
    PULL,
    PUSH,
    PUSH_OBJECT,
    REMOVE,
    HeardNodes,
    Replies,
)
from fedse.flower.patches.held_questions import HeldQuestions
from fedse.flower.patches.one_task import AT_ONCE, Way, answer_in_one_task
from fedse.flower.patches.quick_heartbeats import QuickHeartbeats
from fedse.flower.patches.replace import of_flower

GET = f"{FLEET}pull-object"
PROTOBUF = "application/protobuf"
Answers = list[tuple[int, str | None, bytes]]
"""Status, type and body of each."""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.argv", ["flower-superlink", "--insecure", "--isolation", "process"])
    config = of_flower(f"{PROGRAM}:_parse_superlink_lifespan_config")()
    replies = Replies(reply_bounds(100), tmp_path / "offences.jsonl")
    heard = HeardNodes(None, clock=time.time, ticks=time.monotonic)
    made = guarded_app(config, replies, heard)
    manager = config_loader.get_federation_manager(is_simulation=False)
    _, states = config_loader.get_objectstore_linkstate_factories(":flwr-in-memory:", manager)
    made.state.linkstate_factory = states
    logging.disable()
    yield made
    logging.disable(logging.NOTSET)


async def answers(app: Any, keys: Any, node: Node) -> Answers:
    """What the app answers to a node that comes, asks and pushes, and to what no node sends."""
    signer, public = NodeAuthHttpInterceptor(*keys), public_key_to_bytes(keys[1])
    stranger = Node(node_id=node.node_id + 1)
    sent: list[tuple[str, Any, bool, str]] = [
        (ENTER, ActivateNodeRequest(public_key=public, heartbeat_interval=30), True, PROTOBUF),
        (HEARTBEAT, SendNodeHeartbeatRequest(node=node, heartbeat_interval=30), True, PROTOBUF),
        (HEARTBEAT, SendNodeHeartbeatRequest(node=node, heartbeat_interval=30), True, PROTOBUF),
        (HEARTBEAT, SendNodeHeartbeatRequest(node=node, heartbeat_interval=30), False, PROTOBUF),
        (PULL, PullMessagesRequest(node=node), True, PROTOBUF),
        (PULL, PullMessagesRequest(node=node), False, PROTOBUF),
        (PULL, PullMessagesRequest(node=stranger), True, PROTOBUF),
        (PULL, PullMessagesRequest(node=node), True, "application/json"),
        (PULL, b"\xff not a message", True, PROTOBUF),
        (ASK, b"\xff not a message", False, PROTOBUF),
        (GET, PullObjectRequest(node=node, object_id="0" * 64), True, PROTOBUF),
        (PUSH, PushMessagesRequest(node=node), True, PROTOBUF),
        (PUSH_OBJECT, PushObjectRequest(node=node), True, PROTOBUF),
        ("/v1/runtime/pull-messages", PullAppMessagesRequest(), False, PROTOBUF),
        (REMOVE, UnregisterNodeRequest(node_id=stranger.node_id), False, PROTOBUF),
        (f"{FLEET}nothing", PullMessagesRequest(node=node), True, PROTOBUF),
        ("/health", b"", False, PROTOBUF),
        (LEAVE, DeactivateNodeRequest(node_id=node.node_id), True, PROTOBUF),
    ]
    found: Answers = []
    way = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=way, base_url="http://link") as client:
        for path, message, signed, kind in sent:
            body = message if isinstance(message, bytes) else message.SerializeToString()
            request = client.build_request("POST", path, content=body)
            request.headers["content-type"] = kind
            if signed:
                signer.intercept(ProtobufRequestContext(path, message, request), lambda one: one)
            got = await client.send(request)
            found.append((got.status_code, got.headers.get("content-type"), got.content))
    return found


def test_every_request_is_answered_as_in_flowers_own_way(app: Any) -> None:
    keys = generate_key_pairs()
    state = app.state.linkstate_factory.state()
    node = Node(node_id=state.create_node("", "site", public_key_to_bytes(keys[1]), 0))
    usual = asyncio.run(answers(app, keys, node))
    assert {status for status, *_ in usual} >= {200, 400, 401, 404}
    heard = HeardNodes(None, clock=time.time, ticks=time.monotonic)
    ways: list[Way]
    for ways in ([], [HeldQuestions(lambda: True), QuickHeartbeats(heard, time.monotonic)]):
        answer_in_one_task(app, *ways)
        assert asyncio.run(answers(app, keys, node)) == usual


def test_no_middleware_of_flowers_is_left_out(app: Any) -> None:
    called: list[str] = []

    def noting(name: str, plain: Any) -> Any:
        async def dispatch(self: Any, request: Any, call_next: Any) -> Any:
            called.append(name)
            return await plain(self, request, call_next)

        return dispatch

    own = [one.cls for one in app.user_middleware if "dispatch" in vars(one.cls)]
    own = [one for one in own if one.__module__.startswith("flwr.")]
    plain = {one: one.dispatch for one in own}
    try:
        for one in own:
            one.dispatch = noting(one.__name__, plain[one])
        answer_in_one_task(app)
        keys = generate_key_pairs()
        asyncio.run(answers(app, keys, Node(node_id=1)))
    finally:
        for one in own:
            one.dispatch = plain[one]
    assert called[: len(own) - 2] == [one.__name__ for one in own][: len(own) - 2]
    assert set(called) == {one.__name__ for one in own}


def asked(path: str) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}


class Held:
    """An app that answers when it may, and counts."""

    def __init__(self) -> None:
        self.begun = self.most = self.now = 0
        self.may = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun, self.now = self.begun + 1, self.now + 1
        self.most = max(self.most, self.now)
        await self.may.wait()
        self.now -= 1
        scope["state"] = {"protobuf_request": PushMessagesRequest()}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Plain:
    """What `answer_in_one_task` needs of an app: no middlewares, and what is inside."""

    def __init__(self, held: Held) -> None:
        self.app, self.middleware_stack = held, None

    def build_middleware_stack(self) -> Any:
        return self


async def _send(_: Any) -> None: ...


async def _crowd() -> tuple[int, int, int]:
    """Of thirty nodes, ten of which give up, a heartbeat and the server's app: begun before and
    after, most."""
    held = Held()
    app: Any = Plain(held)
    answer_in_one_task(app)
    gone = asyncio.Event()

    async def patient() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def impatient() -> Any:
        if gone.is_set():
            return {"type": "http.disconnect"}
        return await patient()

    ways = [*([patient] * 20), *([impatient] * 10)]
    nodes = [asyncio.create_task(app.middleware_stack(asked(GET), way, _send)) for way in ways]
    await asyncio.sleep(0.01)
    assert held.begun == AT_ONCE
    urgent = [
        asyncio.create_task(app.middleware_stack(asked(path), patient, _send))
        for path in (HEARTBEAT, ASK)
    ]
    await asyncio.sleep(0.01)
    before = held.begun
    gone.set()
    held.may.set()
    await asyncio.gather(*nodes, *urgent)
    return before, held.begun, held.most


def test_a_few_are_answered_at_a_time_and_who_gave_up_is_not() -> None:
    assert asyncio.run(_crowd()) == (AT_ONCE + 2, 20 + 2, AT_ONCE + 2)
