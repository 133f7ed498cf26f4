"""What travels between the server and a site, as Flower records; both directions, both ends.

Down: the request as scalars, and the adapter. Up: numbers, and the adapter; a reply has no field
that can hold text, so nothing an agent saw fits into it. The adapter is one array of raw bytes
(hundreds of tensors as arrays of their own cost five times as much), in a serialisation that
neither Flower nor numpy will try to read.

Flower names every object by its contents, and whoever names one first decides what belongs to it.
So that no site can name another's reply before it is sent, each has a random number in it, the
salt: among the numbers, and in the place of the adapter where there is no vote.
"""

from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedse.errors import WireError
from fedse.faults import Fault
from fedse.protocol import SiteReply
from fedse.types import ClientStats

REQUEST, REPLY, ADAPTER = "request", "reply", "adapter"
RAW, NO_VOTE = "fedse.bytes", "fedse.no-vote"
SALT = "salt"

Scalar = str | int | float | bool

INTEGERS = tuple(n for n, f in ClientStats.model_fields.items() if f.annotation is int)
ROLES = "roles"
"""A list of numbers, left out if it is empty."""
FLOATS = tuple(n for n in ClientStats.model_fields if n not in (*INTEGERS, ROLES))
OPTIONAL = "loss"
"""The one number a client may not have; it is then left out."""
MOST_FIGURES = 1024
# A float holds every whole number up to here, and JSON readers agree on it.
MAX_COUNT = 2**53
# A salt is from here to twice as much, so that all are equally long on the wire.
LEAST_SALT = 2**52


def request_content(request: Mapping[str, Scalar], adapter: bytes) -> RecordDict:
    """A request and the adapter it names, ready to be sent."""
    return RecordDict({REQUEST: ConfigRecord(dict(request)), ADAPTER: _pack(adapter)})


def read_request(content: RecordDict) -> tuple[dict[str, object], bytes]:
    """What `request_content` packed; the worker, not this, decides whether it makes sense."""
    request, adapter = content.get(REQUEST), content.get(ADAPTER)
    if not isinstance(request, ConfigRecord):
        raise WireError("the message holds no request")
    return dict(request), _unpack(adapter)


def reply_content(reply: SiteReply, *, salt: int) -> RecordDict:
    """A site's reply, ready to be sent: numbers and bytes."""
    numbers: dict[str, int | float | list[float]] = {
        "client": reply.client,
        "fault": int(reply.fault),
        SALT: salt,
    }
    for name in INTEGERS:
        numbers[name] = int(getattr(reply.stats, name))
    for name in FLOATS:
        value = getattr(reply.stats, name)
        if value is not None:
            numbers[name] = float(value)
    if reply.stats.roles:
        numbers[ROLES] = [float(value) for value in reply.stats.roles]
    adapter = _pack(reply.adapter) if reply.adapter else _pack(_salt_bytes(salt), NO_VOTE)
    return RecordDict({REPLY: MetricRecord(numbers), ADAPTER: adapter})


def read_reply(content: RecordDict, *, max_bytes: int) -> SiteReply:
    """What `reply_content` packed, and nothing else: any other content is a WireError.

    The text of the error is the server's own and quotes nothing that arrived.
    """
    try:
        return _parse_reply(content, max_bytes)
    except WireError:
        raise
    except Exception:
        # What Flower let through was built by a peer; whatever it breaks is that peer's fault.
        raise WireError("the reply cannot be read") from None


def _parse_reply(content: RecordDict, max_bytes: int) -> SiteReply:
    if set(content) != {REPLY, ADAPTER}:
        raise WireError("the reply has other records than the agreed ones")
    numbers = content[REPLY]
    if not isinstance(numbers, MetricRecord):
        raise WireError("the reply's numbers are not a record of numbers")
    if set(numbers) | {OPTIONAL, ROLES} != {ROLES, "client", "fault", SALT, *INTEGERS, *FLOATS}:
        raise WireError("the reply's numbers are not the agreed ones")
    for name in ("client", "fault", SALT, *INTEGERS):
        _require_count(name, numbers[name], least=-1 if name == "client" else 0)
    adapter = _unpack_vote(content[ADAPTER], int(str(numbers[SALT])))
    if len(adapter) > max_bytes:
        raise WireError(f"adapter of {len(adapter)} bytes, expected {max_bytes}")
    for name in FLOATS:
        _require_finite(name, numbers.get(name))
    given = {name: numbers.get(name) for name in (*INTEGERS, *FLOATS)}
    stats = ClientStats.model_validate({**given, ROLES: _figures(numbers.get(ROLES, []))})
    _require_possible(stats)
    client, fault = int(str(numbers["client"])), Fault(int(str(numbers["fault"])))
    return SiteReply(stats, adapter or None, fault, client)


def _salt_bytes(salt: int) -> bytes:
    return salt.to_bytes(8, "little")


def _pack(data: bytes, kind: str = RAW) -> ArrayRecord:
    return ArrayRecord({ADAPTER: Array(dtype="uint8", shape=(len(data),), stype=kind, data=data)})


def _unpack_vote(record: object, salt: int) -> bytes:
    """The adapter of a reply; empty = no vote, and nothing but the salt in its place."""
    if _only_array(record).stype != NO_VOTE:
        if not (adapter := _unpack(record)):
            raise WireError("the adapter has no bytes")
        return adapter
    if _unpack(record, NO_VOTE) != _salt_bytes(salt):
        raise WireError("there is something else than the salt in the place of the adapter")
    return b""


def _unpack(record: object, kind: str = RAW) -> bytes:
    array = _only_array(record)
    if array.stype != kind or array.dtype != "uint8" or array.shape != (len(array.data),):
        raise WireError("the adapter is not one array of raw bytes")
    data: bytes = array.data
    return data


def _only_array(record: object) -> Array:
    if not isinstance(record, ArrayRecord) or set(record) != {ADAPTER}:
        raise WireError("the message holds no adapter record of one array")
    return record[ADAPTER]


def _require_count(name: str, value: object, *, least: int) -> None:
    if type(value) is not int or not least <= value <= MAX_COUNT:
        raise WireError(f"{name} is not a whole number from {least} to 2**53")


def _require_finite(name: str, value: object) -> None:
    if value is None and name == OPTIONAL:
        return
    # The comparison is false for NaN and for both infinities.
    if type(value) is not float or not abs(value) <= MAX_COUNT:
        raise WireError(f"{name} is not a finite number")


def _figures(values: object) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) > MOST_FIGURES:
        raise WireError(f"roles are not at most {MOST_FIGURES} numbers")
    for value in values:
        _require_finite(ROLES, value)
    return tuple(values)


def _require_possible(stats: ClientStats) -> None:
    parts = (
        stats.succeeded <= stats.played,
        stats.broken <= stats.played,
        stats.truncated <= stats.played,
        stats.unread <= stats.replies,
        stats.cut <= stats.replies,
        stats.mixed <= stats.groups <= stats.played,
        stats.eval_succeeded <= stats.eval_played,
        stats.home_succeeded <= stats.home_played,
        stats.personal_succeeded <= stats.personal_played,
        stats.personal_home_succeeded <= stats.personal_home_played,
        stats.validation_succeeded <= stats.validation_played,
    )
    if not all(parts):
        raise WireError("the reply counts more episodes of a kind than were played")
