"""One MCP server process, reached through the SDK's client: start, list tools, call, end.

Servers written with any SDK in any language fit, over stdin and stdout. The SDK is asynchronous:
one thread of this process runs its event loop, for all servers. Each request waits at most
`timeout` seconds. A server that dies, is late or writes anything but MCP is ended and the request
raises EnvError; a request the server refuses raises Refused and the server lives on.
"""

import asyncio
import atexit
import logging
import os
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from fedse import EnvError

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal
    from mcp import ClientSession
    from pydantic import BaseModel

# Seconds to wait for what a failed server still writes; it is being ended meanwhile.
LAST_WORDS_SECONDS = 0.5
# The SDK takes 7 s at most: it closes stdin, sends SIGTERM, sends SIGKILL, and waits after each.
END_SECONDS = 30.0

T = TypeVar("T")
_ending: "set[Future[None]]" = set()
"""Servers that were asked to end and have not ended yet; this process waits for them."""


class Refused(Exception):
    """The server answered a request with an error, in its own words."""


class McpServer:
    """A running server after its handshake; it ends with `end()` or with this object."""

    def __init__(self, command: Sequence[str], *, timeout: float) -> None:
        self._command, self._timeout = " ".join(command), timeout
        file = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (lives with the server)
        self._stderr = cast(TextIO, file)
        self._connection = _Connection()
        try:
            self._connection.open(command, self._stderr)
        except (OSError, ValueError) as error:
            self._stderr.close()
            raise EnvError(
                f"MCP server {self._command!r} does not start: {error}",
                hint=f"make it run by hand: {self._command}",
            ) from error
        self.end = weakref.finalize(self, _end, self._connection, self._stderr)
        try:
            self._request("initialize", lambda session: session.initialize())
        except Refused as error:
            raise self._failed(f"did not accept the handshake: {error}") from error

    @property
    def alive(self) -> bool:
        """Whether it answers now; one that does not is ended."""
        try:
            self._request("ping", lambda session: session.send_ping())
        except Refused:
            return True
        except EnvError:
            return False
        return True

    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Every tool the server offers, in its order: name, description, inputSchema."""
        from mcp.types import PaginatedRequestParams

        tools: list[Mapping[str, Any]] = []
        page = self._request("tools/list", methodcaller("list_tools"))
        while True:
            tools += _as_sent(page)["tools"]
            if not page.next_cursor:
                return tuple(tools)
            after = PaginatedRequestParams(cursor=page.next_cursor)
            page = self._request("tools/list", methodcaller("list_tools", params=after))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of one tool call, as the server sent it."""
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        params = CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = CallToolRequest(params=params)
        # Not session.call_tool: that lists all tools first, to check results against their schemas.
        return _as_sent(
            self._request("tools/call", lambda s: s.send_request(request, CallToolResult))
        )

    def read(self, uri: str) -> Mapping[str, Any]:
        """The contents of one resource."""
        return _as_sent(self._request("resources/read", lambda s: s.read_resource(uri)))

    def _request(self, method: str, send: Callable[["ClientSession"], Awaitable[T]]) -> T:
        if not self.end.alive:
            raise self._failed(f"has ended before {method}")
        from mcp import MCPError

        try:
            return self._connection.ask(send, self._timeout)
        except TimeoutError as error:
            raise self._failed(f"gave no answer to {method} in {self._timeout:g} s") from error
        except MCPError as error:
            raise Refused(error.message) from error
        # ValueError covers an answer that is no MCP, RuntimeError a revision the SDK does not know.
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            raise self._failed(f"broke off in {method}: {error}") from error

    def _failed(self, what: str) -> EnvError:
        """The server is being ended; the error quotes the last line of its stderr."""
        output = ""
        if self.end.alive:
            self.end.detach()
            self._connection.leave(LAST_WORDS_SECONDS)
            self._stderr.seek(0)
            output = self._stderr.read()
            self._stderr.close()
        last = (output.strip().splitlines() or ["nothing"])[-1]
        return EnvError(
            f"MCP server {self._command!r} {what}; its stderr ends with: {last[:200]}",
            hint=f"make it run by hand: {self._command}",
        )


class _Connection:
    """A server process and the session with it, both in the thread of the event loop."""

    _done: "Future[None]"
    _session: "ClientSession"
    _waiting: "CancelScope | None" = None

    def __init__(self) -> None:
        self._portal = _portal()
        self._foreign: Exception | None = None

    def open(self, command: Sequence[str], stderr: TextIO) -> None:
        """The server was started; OSError = it was not."""
        self._done, self._session = self._portal.start_task(self._serve, tuple(command), stderr)

    def ask(self, send: Callable[["ClientSession"], Awaitable[T]], seconds: float) -> T:
        """What the server answers; TimeoutError, EOFError and ValueError say why it did not."""
        answer = self._portal.start_task_soon(self._answer, send)
        # Waited for here: what the SDK does to cancel a request may itself wait for the server.
        try:
            return answer.result(seconds)
        finally:
            answer.cancel()

    def leave(self, seconds: float) -> None:
        """The server is being ended, and has ended if that takes it less than `seconds`."""
        _ending.add(self._done)
        self._done.add_done_callback(_ending.discard)
        self._loop.call_soon_threadsafe(self._leaving.set)
        # The collector runs in any thread, also in that of the loop, which must go on.
        if threading.get_ident() != self._thread:
            wait([self._done], seconds)

    async def _serve(
        self, command: Sequence[str], stderr: TextIO, *, task_status: "TaskStatus[ClientSession]"
    ) -> None:
        import anyio
        from mcp import ClientSession, StdioServerParameters, stdio_client

        self._leaving, self._loop = anyio.Event(), asyncio.get_running_loop()
        self._thread = threading.get_ident()
        program = StdioServerParameters(
            command=command[0],
            args=list(command[1:]),
            env=dict(os.environ),
            # With "strict" a byte that is not text would break the SDK's reader, not the request.
            encoding_error_handler="replace",
        )
        async with (
            stdio_client(program, stderr) as streams,
            ClientSession(*streams, message_handler=self._on_message) as session,
        ):
            task_status.started(session)
            await self._leaving.wait()

    async def _on_message(self, message: object) -> None:
        """Handles messages that answer no request; an exception is a line that is not MCP."""
        if isinstance(message, Exception):
            self._foreign = self._foreign or message
            if self._waiting is not None:
                self._waiting.cancel()

    async def _answer(self, send: Callable[["ClientSession"], Awaitable[T]]) -> T:
        import anyio
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            with anyio.CancelScope() as self._waiting:
                if self._foreign is None:
                    return await send(self._session)
        except MCPError as error:
            # A server may refuse with the same number, in other words.
            if (error.code, error.message) != (CONNECTION_CLOSED, "Connection closed"):
                raise
        if self._foreign is not None:
            raise ValueError(f"expected JSON on its stdout, got {_line_of(self._foreign)!r}")
        raise EOFError("it closed its stdout")


@cache
def _portal() -> "BlockingPortal":
    """To the thread of the event loop.

    Not anyio's start_blocking_portal: what closes that when the interpreter ends would wait for
    a thread that is stopped already. This one is never closed, and its servers end before.
    """
    import anyio
    import mcp  # noqa: F401 (takes a second, in which the loop would stand still)
    from anyio.from_thread import BlockingPortal

    # What the SDK logs is in our errors; this keeps it off the terminal where no logging is set up.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    atexit.register(lambda: wait(list(_ending), END_SECONDS))
    opened: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            opened.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=(serve,), name="mcp", daemon=True).start()
    return opened.result()


def _end(connection: _Connection, stderr: TextIO) -> None:
    connection.leave(END_SECONDS)
    stderr.close()


def _as_sent(result: "BaseModel") -> Mapping[str, Any]:
    """The result as JSON, with the fields the server set and no others."""
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _line_of(error: Exception) -> bytes:
    """The start of the line that was no MCP."""
    from pydantic import ValidationError

    line = error.errors()[0]["input"] if isinstance(error, ValidationError) else error
    return str(line)[:80].encode()
