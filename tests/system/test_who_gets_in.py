"""What only a real SuperLink and a real proxy can show: who gets in, and which routes exist.

One SuperLink and one nginx; a node is one signed request, as Flower's SuperNode sends it.
"""

import http.client
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr", "nginx")

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.control_pb2 import ListRunsRequest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supercore.protobuf import translation

from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.federation import folder
from fedse.federation.folder import Card, Federation
from fedse.federation.home import agreed_config, join
from fedse.federation.invite import read_invite
from fedse.federation.keys import NodeKey, make_identity, make_node_key
from fedse.federation.nginx import FLEET_ROUTES
from fedse.federation.rotation import read_either
from fedse.flower.ops.serve_federation import serving, sync_nodes
from fedse.ports import free_ports

pytestmark = [pytest.mark.federated, pytest.mark.slow]

PROTOBUF = {"content-type": "application/protobuf", "accept": "application/protobuf"}
FAR_FUTURE = 3600.0
NAME = "0" * 64


class Answer(NamedTuple):
    status: int
    body: bytes


class Standing(NamedTuple):
    """A federation that runs, with one enrolled site."""

    federation: Federation
    ca: Path
    key: NodeKey
    """Of the enrolled site."""
    folder: Path
    first: int
    """What its first request through the proxy was answered with."""

    @property
    def proxy(self) -> int:
        return self.federation.card.port

    @property
    def link(self) -> int:
        return self.federation.card.link_port


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    path = tmp_path_factory.mktemp("identity")
    clients = [{"name": name, "env": "maze"} for name in ("alpha", "beta")]
    config = Config.model_validate({"run": {"name": "clinics", "rounds": 1}, "clients": clients})
    port, link = free_ports(2)
    card = Card(
        name="clinics", host="localhost", port=port, link_port=link, bundle="b", fingerprint=""
    )
    now = datetime.now(UTC)
    made = folder.create(
        path / "fed", config, given=dump_config(config), card=card, now=now, clock=time.time
    )
    keys = {name: enrolled(made, name, path / name) for name in ("alpha", "beta")}
    with serving(made, proxy=True):
        begun = Standing(made, made.identity.ca, keys["alpha"], path, 0)
        yield begun._replace(first=activate(begun, begun.key).status)


def enrolled(federation: Federation, site: str, home: Path) -> NodeKey:
    now = int(time.time())
    file = folder.invite(federation, site, nonce=site * 4, now=now, hours=1)
    offered = read_invite(file, trusted=federation.card.fingerprint, now=now)
    agreed = agreed_config(offered, env="maze", options={}, base=None)
    made = join(offered, agreed, home, bundle="b")
    folder.enrol(federation, read_either(made.path / "enrolment.json"), now=now)
    return made.key


def post(
    port: int,
    path: str,
    body: bytes,
    *,
    ca: Path | None,
    headers: dict[str, str] | None = None,
    method: str = "POST",
    host: str = "localhost",
) -> Answer:
    """One request with its path exactly as written; without `ca` without TLS."""
    if ca is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    else:
        context = ssl.create_default_context(cafile=ca)
        connection = http.client.HTTPSConnection(host, port, timeout=10, context=context)
    try:
        connection.putrequest(method, path)
        for name, value in {
            **PROTOBUF,
            "content-length": str(len(body)),
            **(headers or {}),
        }.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    finally:
        connection.close()


def signed(key: NodeKey, *, age: float = 0.0) -> tuple[bytes, dict[str, str]]:
    """The public key and the headers Flower's SuperNode sends with each request."""
    private = load_ssh_private_key(key.private.read_bytes(), password=None)
    public = public_key_to_bytes(private.public_key())
    at = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    signature = sign_message(private, at.encode("ascii"))
    return public, {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public).decode(),
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(signature).decode(),
        TIMESTAMP_HEADER: at,
    }


def activate(
    standing: Standing, key: NodeKey, *, age: float = 0.0, ca: Path | None = None, port: int = 0
) -> Answer:
    public, headers = signed(key, age=age)
    body = ActivateNodeRequest(public_key=public, heartbeat_interval=60).SerializeToString()
    return post(
        port or standing.proxy,
        "/v1/fleet/activate-node",
        body,
        ca=ca or standing.ca,
        headers=headers,
    )


def beat(standing: Standing, site: str) -> int:
    """How a heartbeat for `site`, signed by alpha, is answered."""
    _, headers = signed(standing.key)
    node = Node(node_id=folder.nodes(standing.federation)[site])
    body = SendNodeHeartbeatRequest(node=node, heartbeat_interval=60).SerializeToString()
    path = "/v1/fleet/send-node-heartbeat"
    return post(standing.proxy, path, body, ca=standing.ca, headers=headers).status


def test_an_enrolled_site_gets_in_through_the_proxy(standing: Standing):
    assert standing.first == 200
    assert beat(standing, "alpha") == 200


def test_an_unknown_key_does_not(standing: Standing):
    answer = activate(standing, make_node_key(standing.folder / "stranger"))
    assert answer.status == 412
    assert b"Failed to activate" in answer.body


def test_an_old_signature_does_not(standing: Standing):
    assert activate(standing, standing.key, age=FAR_FUTURE).status == 401


def test_a_request_without_a_signature_does_not(standing: Standing):
    public, _ = signed(standing.key)
    body = ActivateNodeRequest(public_key=public, heartbeat_interval=60).SerializeToString()
    answer = post(standing.proxy, "/v1/fleet/activate-node", body, ca=standing.ca)
    assert answer.status == 401


def test_somebody_elses_key_with_ones_own_signature_does_not(standing: Standing):
    public, _ = signed(standing.key)
    _, headers = signed(make_node_key(standing.folder / "stranger"))
    body = ActivateNodeRequest(public_key=public, heartbeat_interval=60).SerializeToString()
    path = "/v1/fleet/activate-node"
    assert post(standing.proxy, path, body, ca=standing.ca, headers=headers).status == 401


def pushed(standing: Standing, **said: object) -> Answer:
    """How alpha's push of one message is answered."""
    node = folder.nodes(standing.federation)
    known = {"run_id": 1, "src_node_id": node["alpha"], "dst_node_id": 1, "message_type": "train"}
    known["message_id"] = NAME
    metadata = Metadata(**{**known, **{k: node.get(v, v) for k, v in said.items()}})
    request = PushMessagesRequest(
        node=Node(node_id=node["alpha"]),
        messages_list=[ProtoMessage(metadata=metadata)],
        message_object_trees=[ObjectTree(object_id=NAME)],
    )
    _, headers = signed(standing.key)
    path = "/v1/fleet/push-messages"
    body = request.SerializeToString()
    return post(standing.proxy, path, body, ca=standing.ca, headers=headers)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"src_node_id": "beta", "reply_to_message_id": "m"}, "not from the node"),
        ({"src_node_id": 1, "reply_to_message_id": "m"}, "not from the node"),
        ({}, "is not a reply"),
        ({"src_node_id": "beta"}, "not from the node"),
        ({"reply_to_message_id": "m"}, "a request that is not open"),
    ],
    ids=["as beta", "as the SuperLink", "no reply", "as beta, no reply", "to nothing"],
)
def test_an_enrolled_site_cannot_put_words_into_others_mouths(standing: Standing, said, problem):
    assert pushed(standing, **said).status == 400
    logs = (standing.federation.path / "logs").glob("superlink*.log")
    assert problem in "".join(log.read_text() for log in logs)


def test_one_site_cannot_speak_as_another(standing: Standing):
    assert (beat(standing, "alpha"), beat(standing, "beta")) == (200, 401)


@pytest.mark.parametrize("port", ["proxy", "link"])
def test_there_is_no_way_in_without_tls(standing: Standing, port: str):
    public, headers = signed(standing.key)
    body = ActivateNodeRequest(public_key=public, heartbeat_interval=60).SerializeToString()
    number = getattr(standing, port)
    try:
        status = post(number, "/v1/fleet/activate-node", body, ca=None, headers=headers).status
    except (OSError, http.client.HTTPException):
        return
    assert status == 400


def test_a_site_that_was_given_another_authority_does_not_connect(standing: Standing):
    other = make_identity(standing.folder / "other").ca
    with pytest.raises(ssl.SSLCertVerificationError, match="local issuer"):
        activate(standing, standing.key, ca=other)


def test_a_site_that_was_sent_to_another_host_name_does_not_connect(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
):
    """The right server under a wrong name: as if a name server lied about another host."""
    with (
        resolved("evil.example.org", monkeypatch),
        pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"),
    ):
        post(standing.proxy, "/health", b"", ca=standing.ca, host="evil.example.org")


@contextmanager
def resolved(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import socket

    plain: Callable[..., object] = socket.getaddrinfo

    def lookup(host: object, *args: object, **options: object) -> object:
        return plain("127.0.0.1" if host == name else host, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lookup)
        yield


def routes() -> list[str]:
    """Every route of this Flower, from its own table."""
    (table,) = [
        found
        for found in vars(translation).values()
        if isinstance(found, dict) and ("POST", "/v1/control/list-runs") in found
    ]
    return sorted(path for _, path in table)


def test_the_control_routes_are_open_on_the_loopback_address(standing: Standing):
    """Why there is a proxy: whoever reaches the SuperLink itself is asked for nothing."""
    body = ListRunsRequest().SerializeToString()
    assert post(standing.link, "/v1/control/list-runs", body, ca=standing.ca).status == 200


def test_no_route_but_the_named_ones_is_reachable_through_the_proxy(standing: Standing):
    open_ = {f"/v1/fleet/{route}" for route in FLEET_ROUTES}
    closed = [path for path in routes() if path not in open_]
    assert {"/v1/control/start-run", "/v1/control/list-runs"} <= set(closed)
    assert any(path.startswith("/v1/runtime/") for path in closed)
    statuses = {path: post(standing.proxy, path, b"", ca=standing.ca).status for path in closed}
    assert {path: s for path, s in statuses.items() if s != 403} == {}


SPELLINGS = [
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol%2flist-runs",
    "//v1/control/list-runs",
    "/v1//control/list-runs",
    "/V1/CONTROL/list-runs",
    "/v1/control/list-runs?/v1/fleet/get-fab",
    "/v1/control/list-runs/../../fleet/pull-messages",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/pull-messages/",
    "/v1/fleet/pull-messages;/v1/control/list-runs",
    "/health",
    "/docs",
    "/openapi.json",
    "/",
]


@pytest.mark.parametrize("path", SPELLINGS)
def test_no_spelling_reaches_another_route(standing: Standing, path: str):
    body = ListRunsRequest().SerializeToString()
    # 401: it was passed on as the fleet route it means, which asks for a signature.
    assert post(standing.proxy, path, body, ca=standing.ca).status in {401, 403}


def test_a_fleet_route_takes_no_other_method(standing: Standing):
    path = "/v1/fleet/pull-messages"
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        assert post(standing.proxy, path, b"", ca=standing.ca, method=method).status == 403


def test_a_body_larger_than_a_chunk_is_not_taken(standing: Standing):
    size = {"content-length": str(7 << 20)}
    answer = post(standing.proxy, "/v1/fleet/push-object", b"", ca=standing.ca, headers=size)
    assert answer.status == 413


def test_a_revoked_site_is_cut_off_at_once(standing: Standing):
    """Last, because it changes who is enrolled."""
    node = Node(node_id=folder.nodes(standing.federation)["alpha"])
    body = SendNodeHeartbeatRequest(node=node, heartbeat_interval=60).SerializeToString()

    def heartbeat() -> int:
        _, headers = signed(standing.key)
        path = "/v1/fleet/send-node-heartbeat"
        return post(standing.proxy, path, body, ca=standing.ca, headers=headers).status

    assert heartbeat() == 200
    folder.revoke(standing.federation, "alpha")
    assert sync_nodes(standing.federation)
    assert set(folder.nodes(standing.federation)) == {"beta"}
    assert heartbeat() == 401
    assert activate(standing, standing.key).status == 412
