"""What would leave a site in one round: every field and every byte, before first contact.

Nothing is listed by hand: a reply is packed as a real one is, and what Flower would serialise is
taken apart. The numbers in it are examples; the adapter is as large as a real one.
"""

import inspect
from typing import Any

import httpx
from flwr.app import MetricRecord, RecordDict
from flwr.app.metadata import Metadata
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedse.federation.enrolment import EnrolmentRequest
from fedse.federation.nginx import FLEET_ROUTES
from fedse.flower.client_app import FAILED
from fedse.flower.messages.wire import (
    ADAPTER,
    INTEGERS,
    LEAST_SALT,
    MAX_COUNT,
    REPLY,
    reply_content,
)
from fedse.flower.patches.bundle_guard import REFUSED
from fedse.protocol import SiteReply
from fedse.types import AdapterSpec, ClientStats, Record, Task, Trajectory, Turn

EXAMPLE = ClientStats(
    played=48,
    succeeded=31,
    broken=2,
    truncated=9,
    replies=204,
    unread=11,
    cut=5,
    groups=6,
    mixed=3,
    added=17,
    buffered=112,
    loss=0.412,
    steps=28,
    eval_played=60,
    eval_succeeded=25,
    home_played=40,
    home_succeeded=22,
    personal_played=59,
    personal_succeeded=27,
    personal_home_played=39,
    personal_home_succeeded=24,
    validation_played=32,
    validation_succeeded=13,
    entropy=1.87,
    distinct=0.83,
    rollout_seconds=14.2,
    train_seconds=21.7,
    eval_seconds=6.5,
)
"""Every number another one, so that each can be told from the others."""


class Field(Record):
    """One number of a reply."""

    name: str
    kind: str
    example: int | float


class PackedPart(Record):
    """One object Flower serialises, with its share of the bytes."""

    kind: str
    bytes: int


class Preview(Record):
    """A reply with a vote, taken apart."""

    numbers: tuple[Field, ...]
    tensors: dict[str, tuple[int, ...]]
    adapter_bytes: int
    parts: tuple[PackedPart, ...]
    bytes: int
    """Of all parts with the example numbers."""
    bytes_at_most: int
    """With the longest numbers a reply can hold."""
    once: tuple[str, ...]
    """Fields of enrolment.json, which the site itself gives to the coordinator."""
    envelope: tuple[str, ...]
    """What Flower adds to each message."""
    headers: dict[str, str]
    """Of each of Flower's requests, from one that was built and not sent."""
    requests: tuple[str, ...]
    """All paths a SuperNode asks for; the server also learns when, and from which address."""
    when_it_breaks: tuple[str, ...]
    """The only texts of ours that can leave: in place of a reply, the same for every cause."""
    stays: dict[str, tuple[str, ...]]
    """The fields of what an agent saw and did; no reply has a place for any of them."""


def preview(spec: AdapterSpec, *, place: int) -> Preview:
    """Of the client at `place` among the members in sorted order."""
    typical = _content(spec, place, EXAMPLE)
    longest_counts = dict.fromkeys(INTEGERS, MAX_COUNT)
    longest = _content(spec, place, EXAMPLE.model_copy(update=longest_counts))
    parts = tuple(PackedPart(kind=kind, bytes=size) for kind, size in serialised(typical))
    return Preview(
        numbers=_fields(typical[REPLY]),
        tensors={tensor.name: tensor.shape for tensor in spec.tensors},
        adapter_bytes=len(typical[ADAPTER][ADAPTER].data),
        parts=parts,
        bytes=sum(part.bytes for part in parts),
        bytes_at_most=sum(size for _, size in serialised(longest)),
        once=tuple(EnrolmentRequest.model_fields),
        envelope=_metadata(),
        headers=_headers(),
        requests=tuple(f"/v1/fleet/{route}" for route in FLEET_ROUTES),
        when_it_breaks=(FAILED, REFUSED),
        stays={kind.__name__: tuple(kind.model_fields) for kind in (Trajectory, Turn, Task)},
    )


def serialised(content: RecordDict) -> list[tuple[str, int]]:
    """What Flower makes of the content of a message: each object and its bytes."""
    return [
        (type(part).__name__, len(part.deflate()))
        for part in get_all_nested_objects(content).values()
    ]


def _content(spec: AdapterSpec, place: int, stats: ClientStats) -> RecordDict:
    # Zeros would be packed the same, but equal chunks of a large adapter would count only once.
    adapter = (spec.header + _uneven(4 * spec.size))[: spec.nbytes]
    return reply_content(SiteReply(stats, adapter, client=place), salt=LEAST_SALT)


def _uneven(size: int) -> bytes:
    return b"".join(i.to_bytes(4, "little") for i in range(size // 4 + 1))


def _fields(numbers: MetricRecord) -> tuple[Field, ...]:
    return tuple(
        Field(name=name, kind=type(value).__name__, example=value)
        for name, value in numbers.items()
    )


def _metadata() -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(Metadata.__init__).parameters if name != "self")


class _Unsent:
    """Stands last before the network: keeps the headers of a request and answers it itself."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def intercept(self, context: Any, call_next: object) -> httpx.Response:
        self.headers = dict(context.request.headers)
        return httpx.Response(200, request=context.request)


def _headers() -> dict[str, str]:
    unsent = _Unsent()
    # Built as Flower's SuperNode builds its own (flwr.supernode.fleet_http_connection).
    interceptors = [
        RuntimeVersionHttpInterceptor("SuperNode"),
        NodeAuthHttpInterceptor(*generate_key_pairs()),
    ]
    with FleetHttpClient.from_server_address(
        "server", True, None, [*interceptors, unsent]
    ) as client:
        client.PullMessages(PullMessagesRequest())
    return unsent.headers
