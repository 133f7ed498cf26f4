"""Of a node's heartbeats one in 25 seconds goes through Flower and its database.

A site's SuperNode sends one every four seconds, and Flower believes for a minute after each that
the node is there. The others are answered as that one was, if they are signed with the same key. So
a node that was killed counts as gone up to 25 seconds earlier. Once a node is removed, the next
heartbeat of every node goes through Flower, so the removed one is refused at once.
"""

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from fedse.flower.patches.door import HEARTBEAT, LEAVE, REMOVE, HeardNodes
from fedse.flower.patches.one_task import Answer
from fedse.types import Clock

EVERY_SECONDS = 25.0
SIGNED_SECONDS = 60.0
"""Between the clocks of a site and the server; whoever is further off is answered by Flower."""


class _Believed(NamedTuple):
    """A heartbeat that Flower has answered, and until when the next one is like it."""

    body: bytes
    request: Any
    response: Response
    until: float


class QuickHeartbeats:
    """By the key of a node, its last heartbeat that went through Flower."""

    def __init__(self, heard: HeardNodes, ticks: Clock) -> None:
        self._heard, self._ticks = heard, ticks
        self._believed: dict[str, _Believed] = {}
        self._removals = 0

    async def answer(self, request: Request, answer: Answer) -> Response:
        """What `answer` answers, or what it answered to the same heartbeat a short while ago."""
        from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

        path = request.scope["path"]
        if path == REMOVE:
            return await self._removal(request, answer)
        if path not in (HEARTBEAT, LEAVE):
            return await answer(request)
        key, body = request.headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER, ""), await request.body()
        if path == LEAVE:
            self._believed.pop(key, None)
            return await answer(request)
        before = self._believed.get(key)
        if before and self._is_like(before, body) and is_signed(request.headers, key):
            self._heard.note(path, before.request, None)
            return before.response
        removals = self._removals
        response = await answer(request)
        # One that was answered while a node was removed may be that node's.
        if response.status_code == 200 and removals == self._removals:
            until = self._ticks() + EVERY_SECONDS
            asked = request.state.protobuf_request
            self._believed[key] = _Believed(body, asked, response, until)
        return response

    async def _removal(self, request: Request, answer: Answer) -> Response:
        """Of no node is an earlier heartbeat believed any more."""
        try:
            return await answer(request)
        finally:
            self._removals += 1
            self._believed.clear()

    def _is_like(self, before: _Believed, body: bytes) -> bool:
        return body == before.body and self._ticks() < before.until


def is_signed(headers: Mapping[str, str], key: str) -> bool:
    """Whether the owner of `key` signed these headers a short while ago."""
    from flwr.common.constant import TIMESTAMP_HEADER
    from flwr.supercore.constant import FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

    try:
        signed = headers[TIMESTAMP_HEADER]
        age = (datetime.now(UTC) - datetime.fromisoformat(signed)).total_seconds()
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        public = bytes_to_public_key(b64decode(key, validate=True))
        near = abs(age) < SIGNED_SECONDS
        return near and verify_signature(public, signed.encode("ascii"), signature)
    except (KeyError, ValueError, TypeError):
        return False
