"""Flower's SuperLink with our door in it, which proves before it serves that the door is there.

A door that a later Flower does not call would leave everything open, and nobody would notice.
"""

import asyncio
import logging
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from fedse.errors import FedSEError, MachineError
from fedse.federation.heard import silent_seconds
from fedse.flower.messages.bounds import reply_bounds
from fedse.flower.patches.door import ENTER, PUSH, PUSH_OBJECT, Door, HeardNodes, Replies
from fedse.flower.patches.expired_claims import look_once_a_second
from fedse.flower.patches.held_questions import HeldQuestions, allow_connections
from fedse.flower.patches.link_database import keep_database_so
from fedse.flower.patches.one_task import answer_in_one_task
from fedse.flower.patches.quick_heartbeats import QuickHeartbeats
from fedse.flower.patches.replace import TESTED, of_flower

PROGRAM = "flwr.superlink.cli.flower_superlink"
# Set to 1 it opens a second way in, past the door.
OTHER_WAY_IN = "FLWR_INTERNAL_GRPC_FLEET_API"
# How a node that comes, an unsigned push, an empty push and a stray object are answered. Flower
# itself answers 500 to an empty push, and takes an object as far as the run it names.
PROVEN = (200, 401, 400, 400)


def main(argv: Sequence[str]) -> None:
    """Serves as flower-superlink does with its own arguments; ours say how large a reply is."""
    name = "python -m fedse.flower.ops.guarded_superlink"
    parser = ArgumentParser(name, add_help=False, allow_abbrev=False)
    parser.add_argument("--adapter-bytes", type=int, required=True, help="size of an adapter")
    parser.add_argument("--offences", type=Path, required=True, help="where refusals are noted")
    parser.add_argument("--heard", type=Path, help="where it is noted when each node was heard")
    parser.add_argument("--sites", type=int, default=0, help="how many the federation has")
    own, flowers = parser.parse_known_args(argv)
    sys.argv = ["flower-superlink", *flowers]
    os.environ.pop(OTHER_WAY_IN, None)
    config = of_flower(f"{PROGRAM}:_parse_superlink_lifespan_config")()
    look_once_a_second()
    keep_database_so()
    silent = silent_seconds(own.sites)
    heard = HeardNodes(own.heard, clock=time.time, ticks=time.monotonic, silent=silent)
    app = guarded_app(config, Replies(reply_bounds(own.adapter_bytes), own.offences), heard)
    level = of_flower(f"{PROGRAM}:console_handler").level
    uvicorn = of_flower(f"{PROGRAM}:uvicorn")
    served = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        log_config=of_flower(f"{PROGRAM}:get_uvicorn_log_config")(level),
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
    )
    server = uvicorn.Server(served)
    allow_connections()
    held = HeldQuestions(ending=lambda: server.should_exit)
    answer_in_one_task(app, held, QuickHeartbeats(heard, time.monotonic))
    prove(app, heard)
    heard.keep_writing()
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(1)  # it has said why


def guarded_app(config: Any, replies: Replies, heard: HeardNodes) -> Any:
    """Flower's app with the door as its innermost middleware."""
    lifespan = of_flower(f"{PROGRAM}:SuperLinkLifespan")
    app = of_flower("flwr.superlink.main:create_app")(config, lifespan)
    app.add_middleware(Door, replies, heard)
    app.user_middleware.append(app.user_middleware.pop(0))  # it was added as the outermost
    return app


def prove(app: Any, heard: HeardNodes) -> None:
    """The door of this app lets a node in and refuses what it must; else an error."""
    from flwr.superlink import config_loader as made

    manager = made.get_federation_manager(is_simulation=False)
    _, empty = made.get_objectstore_linkstate_factories(":flwr-in-memory:", manager)
    kept, app.state.linkstate_factory = app.state.linkstate_factory, empty
    logging.disable()  # each refusal would be logged as an error
    try:
        node, found = asyncio.run(_knock(app))
    finally:
        logging.disable(logging.NOTSET)
        app.state.linkstate_factory = kept
    if not heard.forget(node) or found != PROVEN:
        raise MachineError(
            f"the SuperLink's door does not hold: a node that comes, an unsigned push, an empty "
            f"push and a stray object were answered with {found}, expected {PROVEN}",
            hint=TESTED,
        )


async def _knock(app: Any) -> tuple[int, tuple[int, ...]]:
    """A node's number, and how its requests were answered."""
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, PushMessagesRequest
    from flwr.proto.message_pb2 import PushObjectRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
    from flwr.supercore.protobuf.client import ProtobufRequestContext
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    keys = generate_key_pairs()
    public, signer = public_key_to_bytes(keys[1]), NodeAuthHttpInterceptor(*keys)
    node = Node(node_id=app.state.linkstate_factory.state().create_node("", "", public, 0))
    empty = PushMessagesRequest(node=node)
    knocks = (
        (ENTER, ActivateNodeRequest(public_key=public, heartbeat_interval=30), True),
        (PUSH, empty, False),
        (PUSH, empty, True),
        (PUSH_OBJECT, PushObjectRequest(node=node), True),
    )
    found: list[int] = []
    way = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=way, base_url="http://door") as client:
        for path, message, signed in knocks:
            body, kind = message.SerializeToString(), {"content-type": "application/protobuf"}
            request = client.build_request("POST", path, content=body, headers=kind)
            if signed:
                signer.intercept(ProtobufRequestContext(path, message, request), lambda sent: sent)
            found.append((await client.send(request)).status_code)
    return node.node_id, tuple(found)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FedSEError as error:
        sys.exit(f"{error}\n  next: {error.hint}")
