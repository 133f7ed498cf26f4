"""One question to a region and its answer over a local socket: both ends.

Four frames, as between a site and its worker: question as JSON, adapter, answer as JSON, sum.
Frames are bytes and never pickled.
"""

import json
import logging
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from fedse.aggregate.regional import largest_sum
from fedse.errors import FedSEError, WireError, boundary
from fedse.faults import Fault
from fedse.ledger.chain import Entry
from fedse.site import socket_client
from fedse.site.listening import serve_connections
from fedse.site.socket_client import MAX_JSON_BYTES, bound_waiting
from fedse.tree.messages import RegionAsk, RegionReply, SiteLine
from fedse.tree.region import Region

LINE_BYTES = 4096
"""More than any line about one site takes."""

log = logging.getLogger("fedse.region")


class AnswerSize(NamedTuple):
    """Bytes that no answer of a region exceeds."""

    json: int
    total: int


def answer_size(members: int, largest: int) -> AnswerSize:
    """For a region of so many sites, where no sum has more than `largest` bytes."""
    return AnswerSize(MAX_JSON_BYTES + LINE_BYTES * members, largest)


def ask_region(
    socket: Path, asked: RegionAsk, adapter: bytes, *, size: AnswerSize, timeout: float
) -> RegionReply:
    """The region's answer, or the fault that kept it from coming within `timeout` seconds."""
    try:
        connection = Client(str(socket), family="AF_UNIX")
    except OSError:
        return RegionReply(Fault.UNREACHABLE)
    with connection:
        try:
            bound_waiting(connection, socket_client.FRAME_SECONDS)
            connection.send_bytes(asked.model_dump_json().encode())
            connection.send_bytes(adapter)
            if not connection.poll(timeout):
                return RegionReply(Fault.SILENT)
            answer = json.loads(connection.recv_bytes(size.json))
            total = connection.recv_bytes(size.total)
            return _read(answer, total)
        # ValueError covers broken JSON and a record that fails its schema.
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return RegionReply(Fault.GARBLED)


def _read(answer: Any, total: bytes) -> RegionReply:
    lines = tuple(SiteLine.model_validate(line) for line in answer["lines"])
    entry = answer["entry"] and Entry.model_validate(answer["entry"])
    return RegionReply(Fault(answer["fault"]), lines, entry, total)


def serve_region(listener: Listener, region: Region) -> None:
    """Every question is answered, one after another, until the listener is closed."""

    def serve_one(connection: "Connection[Any, Any]") -> None:
        bound_waiting(connection, socket_client.FRAME_SECONDS)
        _exchange(connection, region)

    serve_connections(listener, serve_one, log)


def _exchange(connection: "Connection[Any, Any]", region: Region) -> None:
    reply = RegionReply(Fault.UNFORESEEN)
    try:
        size = answer_size(len(region.config.clients), largest_sum(region.spec))
        frame = connection.recv_bytes(size.json)
        adapter = connection.recv_bytes(region.spec.nbytes)
        with boundary(WireError, "question"):
            asked = RegionAsk.model_validate_json(frame)
        reply = region.answer(asked, adapter)
    except FedSEError as error:
        log.error("refused: %s (%s)", error, error.hint, exc_info=True)
        reply = RegionReply(Fault(error.exit_code))
    except (OSError, EOFError) as error:
        log.error("refused: a frame was too long or did not arrive: %s", error)
        reply = RegionReply(Fault.REQUEST)
    except Exception:
        log.exception("failed in an unforeseen way")
    answer = {
        "fault": int(reply.fault),
        "lines": [line.model_dump(mode="json") for line in reply.lines],
        "entry": reply.entry and reply.entry.model_dump(mode="json"),
    }
    connection.send_bytes(json.dumps(answer).encode())
    connection.send_bytes(reply.total)
