"""Nodes of sites without a model: each has its key, its connection and Flower's fleet protocol.

    python -m research.light_nodes SERVER:PORT CA SECONDS SITES HOME ...

A thread a site. Each looks for a message and sends heartbeats as a site's SuperNode does, works for
so many seconds on a question that trains, and answers with the adapter it was sent, moved a little.
Other questions are answered at once. It ends when it is ended.
"""

import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import httpx
import numpy as np
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supernode.fleet_http_connection import http_request_response

from fedse.federation.heard import MANY_SITES
from fedse.flower.messages.wire import LEAST_SALT, read_request, reply_content
from fedse.flower.patches.presence import hasten_heartbeats
from fedse.flower.patches.replace import replace
from fedse.protocol import NEWS, YES, SiteReply
from fedse.seeds import seed_of
from fedse.types import ClientStats

POLL_SECONDS = 3.0
ARRIVE_SECONDS = 60.0
"""In which the sites of a process come, one after the other."""
MOVED = 1e-3
CONNECTION = "flwr.supernode.fleet_http_connection"
ANSWERS = {"news": NEWS, "agree": YES}


def answer(request: dict[str, object], body: bytes, site: str) -> SiteReply:
    """What a site without a model answers: the adapter it was sent, moved a little."""
    kind, round = str(request["kind"]), int(str(request["round"]))
    stats = ClientStats(played=1, succeeded=1, buffered=1, steps=1, loss=1.0)
    if kind != "train":
        return SiteReply(ClientStats(), ANSWERS.get(kind))
    head = 8 + int.from_bytes(body[:8], "little")
    vector = np.frombuffer(body[head:], "<f4")
    draw = np.random.default_rng(seed_of(round, site))
    moved = vector + np.float32(MOVED) * draw.standard_normal(vector.size, dtype=np.float32)
    return SiteReply(stats, body[:head] + moved.astype("<f4").tobytes())


def serve(connection: Any, site: str, work: float) -> None:
    """Every message that comes is answered, as Flower's SuperNode and its app would."""
    _, receive, send, _, _, pull, push, confirm = connection
    while True:
        if (got := receive()) is None:
            time.sleep(POLL_SECONDS)
            continue
        announced, tree = got
        run, name = announced.metadata.run_id, announced.metadata.message_id
        message = whole(tree, name, lambda one, run=run: pull(run, one))
        confirm(run, name)
        request, body = read_request(message.content)
        if request["kind"] == "train":
            time.sleep(work)
        salt = LEAST_SALT + secrets.randbelow(LEAST_SALT)
        content = reply_content(answer(request, body, site), salt=salt)
        reply = Message(content, reply_to=message)
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            objects = get_all_nested_objects(reply)
            wanted, session = send(reply, get_object_tree(reply), work)
            for one in wanted:
                push(run, session, one, objects[one].deflate())


def whole(tree: Any, name: str, pull: Callable[[str], bytes]) -> Message:
    """The message of this object tree."""
    ids = [one.object_id for one in iterate_object_tree(tree)]
    message = inflate_object_from_contents(name, pull_objects(ids, pull))
    assert isinstance(message, Message)
    message.metadata.__dict__["_message_id"] = name
    return message


def come_from(address: Callable[[], str | None]) -> None:
    """Connections that this thread makes from now on come from its own address."""
    plain = httpx.HTTPTransport.__init__

    def made(self: httpx.HTTPTransport, *given: Any, **options: Any) -> None:
        plain(self, *given, **options, local_address=address())

    httpx.HTTPTransport.__init__ = made  # type: ignore[method-assign]


def stay_online(server: str, ca: Path, home: Path, work: float) -> None:
    """The site is online; a connection that breaks is made again."""
    key: Any = load_ssh_private_key((home / "node.key").read_bytes(), None)
    while True:
        try:
            with http_request_response(server, False, str(ca), (key, key.public_key())) as made:
                serve(made, home.name, work)
        except BaseException:
            traceback.print_exc()
            time.sleep(POLL_SECONDS)


def _gave_up(_: object, why: str) -> NoReturn:
    raise ConnectionError(why)


def main() -> None:
    server, ca, work, sites, *homes = sys.argv[1:]
    if int(sites) <= MANY_SITES:
        hasten_heartbeats()
    # A SuperNode that gives up ends its process, which here is that of others too.
    replace(f"{CONNECTION}:flwr_exit", lambda _: _gave_up, f"{CONNECTION}:http_request_response")
    own = threading.local()
    come_from(lambda: getattr(own, "address", None))

    def run(home: Path) -> None:
        # The proxy bounds what one address may have under way; each site has one of its own.
        own.address = f"127.{1 + seed_of(home.name) % 250}.{seed_of(home.name, 1) % 250}.2"
        stay_online(server, Path(ca), home, float(work))

    for home in homes:
        threading.Thread(target=run, args=(Path(home),), daemon=True).start()
        time.sleep(ARRIVE_SECONDS / len(homes))
    threading.Event().wait()


if __name__ == "__main__":
    main()
