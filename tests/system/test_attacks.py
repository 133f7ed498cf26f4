"""While an enrolled site and an outsider attack, the rounds of the others go on: all of it real.

The rogue has a key and sends what Flower's SuperNode never would; the outsider has none, and comes
from another address of the loopback network.
"""

import hashlib
import os
import re
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

import httpx
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_object_id
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedse.adapters.base import spec_of
from fedse.config.file import parse_config
from fedse.federation import folder
from fedse.flower.messages.bounds import reply_bounds
from fedse.flower.messages.wire import reply_content
from fedse.protocol import SiteReply
from fedse.types import ClientStats
from tests.system.field import SHORT_ROUND, Field, field, maze_clients

HONEST, ROGUE = ("alpha", "beta"), "rogue"
ROUNDS, STRIKES = 5, 3
SECONDS = 1200.0
EXPERIMENT = f"""
[run]
name = "attacks"
rounds = {ROUNDS}
{SHORT_ROUND}
[eval]
episodes = 0
[aggregate]
deadline = 240.0
min_clients = {len(HONEST)}
strikes = {STRIKES}
{maze_clients((*HONEST, ROGUE))}
"""
BOUNDS = reply_bounds(spec_of(parse_config(EXPERIMENT, "experiment")).nbytes)
PIECE = 1 << 18
MEGABYTE = 1 << 20


class Rogue:
    """An enrolled site's key in the hands of somebody who writes his own SuperNode."""

    def __init__(self, here: Field) -> None:
        home = here.home(ROGUE)
        key = load_ssh_private_key((home / "node.key").read_bytes(), None)
        self._public = public_key_to_bytes(key.public_key())
        self._here = here
        self._client = FleetHttpClient(
            f"https://localhost:{here.federation.card.port}",
            interceptors=[NodeAuthHttpInterceptor(key, key.public_key())],
            verify=ssl.create_default_context(cafile=home / "ca.crt"),
            timeout=60.0,
        )
        self.node = Node()

    def leaves(self) -> None:
        self._client.close()

    def enters(self) -> bool:
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=60)
        try:
            self._client.ActivateNode(request)
        except httpx.HTTPError:
            return False
        self.node = Node(node_id=folder.nodes(self._here.federation)[ROGUE])
        return True

    def question(self, after: int) -> Any:
        """The first question of a later round than `after`; None = there is none now."""
        with suppress(httpx.HTTPError):
            beat = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=60)
            self._client.SendNodeHeartbeat(beat)
            pulled = self._client.PullMessages(PullMessagesRequest(node=self.node)).messages_list
            for asked in pulled:
                if int(asked.metadata.group_id) > after:
                    return asked
        return None

    def push(self, question: Any, children: list[str], *, own_root: bool = True) -> Any:
        """The answer to a reply whose tree names these objects."""
        no_vote = reply_content(SiteReply(ClientStats(), client=2), salt=5)
        reply = Message(no_vote, reply_to=message_from_proto(question))
        reply.metadata.__dict__["_src_node_id"] = self.node.node_id
        reply.metadata.__dict__["_message_id"] = reply.object_id
        root = reply.object_id if own_root else random_id()
        tree = ObjectTree(
            object_id=root, children=[ObjectTree(object_id=child) for child in children]
        )
        return self._client.PushMessages(
            PushMessagesRequest(
                node=self.node,
                messages_list=[message_to_proto(reply)],
                message_object_trees=[tree],
                clientapp_runtime_list=[1.0],
            )
        )

    def send(self, question: Any, session: str, content: bytes) -> bool:
        request = PushObjectRequest(
            node=self.node,
            run_id=question.metadata.run_id,
            session_id=session,
            object_id=get_object_id(content),
            object_content=content,
        )
        return bool(self._client.PushObject(request).stored)


def random_id() -> str:
    return hashlib.sha256(os.urandom(8)).hexdigest()


def status_of(attempt: Any) -> int:
    """What an attempt is answered with."""
    try:
        attempt()
    except httpx.HTTPStatusError as refusal:
        return int(refusal.response.status_code)
    return 200


def names_too_many(rogue: Rogue, question: Any) -> None:
    """One request of 4 MB that names 60,000 objects; and one that is small enough to pass nginx."""
    assert status_of(lambda: rogue.push(question, [random_id() for _ in range(60_000)])) == 413
    assert status_of(lambda: rogue.push(question, [random_id() for _ in range(600)])) == 400


def sends_too_much(rogue: Rogue, question: Any) -> None:
    pieces = [b"ArrayChunk  %d\x00" % PIECE + os.urandom(PIECE) for _ in range(BOUNDS.objects - 9)]
    answer = rogue.push(question, [get_object_id(piece) for piece in pieces])
    stored = 0
    for piece in pieces:
        if status_of(lambda piece=piece: rogue.send(question, answer.session_id, piece)) != 200:
            break
        stored += len(piece)
    assert 0 < stored <= BOUNDS.bytes < len(pieces) * PIECE


def hides_its_name(rogue: Rogue, question: Any) -> None:
    assert status_of(lambda: rogue.push(question, [random_id()], own_root=False)) == 400


ATTACKS = (names_too_many, sends_too_much, hides_its_name)


class Outsider(threading.Thread):
    """Holds requests and uploads open that never end, from another address, until told to stop."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self.enough, self.opened = port, threading.Event(), 0

    def run(self) -> None:
        with ExitStack() as stack:
            while not self.enough.is_set():
                with suppress(OSError):
                    self._open(stack)
                # Once as many as it takes, then slowly more, as they are cut off.
                self.enough.wait(0.0 if self.opened < 600 else 0.2)

    def _open(self, stack: ExitStack) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(
            ("127.0.0.1", self._port), 5, source_address=("127.0.0.2", 0)
        )
        connection = stack.enter_context(context.wrap_socket(plain))
        self.opened += 1
        path, size, body = "pull-messages", 1000, 1
        if self.opened % 12 == 0:
            path, size, body = "push-object", 6 * MEGABYTE, 5 * MEGABYTE
        head = (
            f"POST /v1/fleet/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        )
        connection.sendall(head.encode() + bytes(body))


class AtTheSite(threading.Thread):
    """Another user of a site's machine: reads the list of processes, looks for open ports."""

    def __init__(self, here: Field, site: str) -> None:
        super().__init__(daemon=True)
        self._here, self._site, self.enough = here, site, threading.Event()
        self.tokens: set[str] = set()
        self.apps = 0
        self.ports: set[int] = set()

    def run(self) -> None:
        while not self.enough.wait(0.2):
            with suppress(OSError, ValueError, StopIteration):
                self._look()

    def _look(self) -> None:
        app = str(self._here.home(self._site) / "bin" / "flwr-clientapp")
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if app in words:
                    self.apps += 1
                    self.tokens |= {word for word in words if re.fullmatch(r"[0-9a-f]{32,}", word)}
        node = next(p["pid"] for p in self._here.roll(self._site) if p["name"] == "node")
        self.ports |= listening(node)


def listening(pid: int) -> set[int]:
    """The TCP ports at which a process takes connections."""
    held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    # Column 4 is the state, 0A = listening; column 10 the inode.
    return {
        int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in held
    }


def memory_of(here: Field) -> int:
    """Of the SuperLink, in bytes."""
    pid = next(p["pid"] for p in here.roll("server") if p["name"] == "superlink")
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def attacked(here: Field, rogue: Rogue) -> None:
    """Each attack was made in a round of its own."""
    last = 0
    for attack in ATTACKS:
        found: list[Any] = []

        def asked(found: list[Any] = found, last: int = last) -> bool:
            question = rogue.question(last)
            found.extend([question] if question is not None else [])
            time.sleep(0.5)
            return bool(found)

        here.wait(SECONDS / 3, until=asked)
        last = int(found[0].metadata.group_id)
        attack(rogue, found[0])


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
def test_attacks_of_a_member_an_outsider_and_a_neighbour_stop_no_round(tmp_path: Path):
    with field(tmp_path / "field", EXPERIMENT, light=True) as here:
        for site in HONEST:
            here.start_site(site)
        for site in HONEST:
            log = here.path / f"{site}.log"
            here.wait(SECONDS / 3, until=lambda log=log: "worker ready" in log.read_text())
        here.start_server()
        rogue = Rogue(here)
        here.wait(SECONDS / 3, until=rogue.enters)
        before = memory_of(here)
        outsider, neighbour = Outsider(here.federation.card.port), AtTheSite(here, HONEST[0])
        outsider.start()
        neighbour.start()
        try:
            attacked(here, rogue)
            grown = memory_of(here) - before
            code = here.wait_for_end(SECONDS)
        finally:
            outsider.enough.set()
            neighbour.enough.set()
            outsider.join(30)
            neighbour.join(30)
            rogue.leaves()
            print(here.last_words())
        here.end()
        results = here.results()
        print([(r.voters, [(e.client, e.kind, e.reason) for e in r.excluded]) for r in results])
        print("connections", outsider.opened, "grown", grown, "apps seen", neighbour.apps)
        assert code == 0
        assert [set(result.voters) for result in results] == [set(HONEST)] * ROUNDS
        kinds = [e.kind for r in results for e in r.excluded if e.client == ROGUE]
        assert kinds == ["rejected"] * STRIKES + ["quarantined"] * (ROUNDS - STRIKES)
        assert outsider.opened > 600
        assert grown < 150 * MEGABYTE
        database = here.federation.path.glob("superlink.db*")
        assert sum(file.stat().st_size for file in database) < 50 * MEGABYTE
        assert neighbour.apps > 0
        assert (neighbour.tokens, neighbour.ports) == (set(), set())
