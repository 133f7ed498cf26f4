"""A SuperNode notes whether it reaches its server; Flower itself retries silently."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from fedse.federation.line import Reached, ServerLine, write_line
from fedse.flower.patches.replace import replace
from fedse.types import Clock

SEND = "flwr.supernode.fleet_http_client:FleetHttpClient._send"
SENDERS = (
    "flwr.supercore.protobuf.client:ProtobufClient._unary_unary",
    "flwr.supernode.fleet_http_connection:http_request_response",
)
ENTER, PUSH, PULL = "/activate-node", "/push-messages", "/pull-messages"


class LineWatch:
    """Follows every request of this SuperNode; they come from several threads."""

    def __init__(self, file: Path, *, clock: Clock) -> None:
        self._file, self._clock, self._lock = file, clock, threading.Lock()
        self._line: ServerLine | None = None
        self._pushing = False

    def follow(self) -> None:
        """From now on the file says how this process reaches its server."""
        replace(SEND, self.sending, *SENDERS)

    def sending(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """`send`, after which it is known whether the server was reached."""

        def send_noted(client: object, context: Any, **options: Any) -> Any:
            path = str(context.request.url.path)
            if path.endswith(PULL):
                self._note_sent()
            try:
                answer = send(client, context, **options)
            except httpx.TransportError as error:
                self._note("unreachable", transport_reason(error))
                raise
            self._note(*reached(path, answer.status_code))
            if path.endswith(PUSH) and answer.status_code == httpx.codes.OK:
                self._pushing = True
            return answer

        return send_noted

    def _note_sent(self) -> None:
        """A node that looks for the next question has sent its answer as a whole, if it had one."""
        with self._lock:
            if self._pushing and self._line:
                self._pushing = False
                self._line = self._line.model_copy(update={"sent": self._clock()})
                write_line(self._file, self._line)

    def _note(self, state: Reached, reason: str) -> None:
        with self._lock:
            before, now = self._line, self._clock()
            if before and (before.state, before.reason) == (state, reason):
                return
            sent = before.sent if before else None
            self._line = ServerLine(state=state, reason=reason, since=now, sent=sent)
            write_line(self._file, self._line)


def reached(path: str, status: int) -> tuple[Reached, str]:
    """What the server's answer to a request says of the way to it."""
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return "unreachable", f"something answers there, but not its SuperLink (HTTP {status})"
    denied = status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    if denied or (path.endswith(ENTER) and status >= httpx.codes.BAD_REQUEST):
        return "refused", f"HTTP {status}"
    return "connected", ""


def transport_reason(error: httpx.TransportError) -> str:
    """The error in the words of the operating system or of TLS, on one line."""
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error).strip())
    return " ".join(text.split()) or type(error).__name__
