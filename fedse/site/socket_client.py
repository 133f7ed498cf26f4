"""One request to a site's worker over its local socket; light enough for a process per message.

One connection carries one exchange of four frames: request JSON, adapter, reply JSON, adapter
(empty = no vote). Frames are bytes and never pickled. What is wrong with an exchange comes back
as a fault number, never as text, because the caller may pass it on to the server.
"""

import json
import os
import socket as socket_of_os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, wait_fixed

from fedse.faults import Fault
from fedse.protocol import SiteReply
from fedse.types import ClientStats

MAX_JSON_BYTES = 64 * 1024
RETRY_SECONDS = 0.5
# A frame must pass within this many seconds once both sides are connected.
FRAME_SECONDS = 30


class Faulty(Protocol):
    """Any reply that may say what went wrong."""

    @property
    def fault(self) -> Fault: ...


R = TypeVar("R", bound=Faulty)


def ask_until_served(ask: Callable[[], R], *, patience: float, tries: int) -> R:
    """What `ask` returns; a worker that died or is starting is asked again for `patience` s.

    A worker that did the work before it died answers from its outbox; one that keeps dying
    of the work is a fault after `tries` deaths.
    """
    broken = _Broken(patience, tries)
    asking = Retrying(
        before=broken.begin,
        retry=retry_if_result(lambda reply: reply.fault.passing),
        stop=broken.lasting,
        wait=wait_fixed(RETRY_SECONDS),
        retry_error_callback=_last_reply,
    )
    return asking(ask)


class _Broken:
    """How long a worker has been broken, and how often it died.

    An ask that took longer than the patience reached a worker that worked: the time starts over.
    """

    def __init__(self, patience: float, tries: int) -> None:
        self._patience, self._tries = patience, tries
        self._began, self._deaths = 0.0, 0
        self._since: float | None = None

    def begin(self, state: RetryCallState) -> None:
        self._began = time.monotonic()

    def lasting(self, state: RetryCallState) -> bool:
        """Called after each ask that failed."""
        now = time.monotonic()
        self._deaths += _last_reply(state).fault == Fault.GARBLED
        if self._since is None or now - self._began > self._patience:
            self._since = now
        return self._deaths >= self._tries or now - self._since >= self._patience


def _last_reply(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()


def ask_site(
    socket: Path,
    request: Mapping[str, object],
    adapter: bytes,
    *,
    client: int | None,
    max_reply_bytes: int,
    timeout: float,
) -> SiteReply:
    """The worker's answer, or the fault that kept it from coming within `timeout` seconds.

    `client` is None where the worker serves one client, as at every real site.
    """
    message = json.dumps({"client": client, "request": dict(request)}).encode()
    try:
        connection = Client(str(socket), family="AF_UNIX")
    except OSError:
        return _fault(Fault.UNREACHABLE)
    with connection:
        try:
            bound_waiting(connection, FRAME_SECONDS)
            # A worker that cannot take a request says why and closes, maybe before it read all.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.send_bytes(message)
                connection.send_bytes(adapter)
            if not connection.poll(timeout):
                return _fault(Fault.SILENT)
            return _receive(connection, max_reply_bytes)
        # ValueError covers broken JSON, broken text and a stats record that fails its schema.
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return _fault(Fault.GARBLED)


def bound_waiting(connection: "Connection[Any, Any]", seconds: int) -> None:
    """A peer that falls silent in the middle of a frame cannot hold this side for longer."""
    with socket_of_os.socket(fileno=os.dup(connection.fileno())) as end:
        wait = struct.pack("ll", seconds, 0)
        end.setsockopt(socket_of_os.SOL_SOCKET, socket_of_os.SO_RCVTIMEO, wait)
        end.setsockopt(socket_of_os.SOL_SOCKET, socket_of_os.SO_SNDTIMEO, wait)


def _receive(connection: "Connection[Any, Any]", max_reply_bytes: int) -> SiteReply:
    answer = json.loads(connection.recv_bytes(MAX_JSON_BYTES))
    adapter = connection.recv_bytes(max_reply_bytes)
    client, fault = answer["client"], answer["fault"]
    if type(client) is not int or type(fault) is not int:
        raise TypeError("client and fault are numbers")
    stats = ClientStats.model_validate(answer["stats"])
    return SiteReply(stats, adapter or None, Fault(fault), client)


def _fault(fault: Fault) -> SiteReply:
    return SiteReply(ClientStats(), fault=fault)
