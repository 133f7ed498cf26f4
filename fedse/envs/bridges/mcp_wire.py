"""One MCP server process, spoken to over its stdin and stdout: start, list tools, call, end.

The wire is JSON-RPC 2.0, one message a line (MCP specification, stdio transport), so servers
written with any SDK in any language fit and none is a dependency here. Each request waits at most
`timeout` seconds. A server that dies, is late or writes anything else is ended and the request
raises EnvError; a request the server refuses raises Refused and the server lives on.
"""

import json
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from threading import Event, Timer
from typing import IO, Any

from fedse.errors import EnvError

# The newest revision with the handshake that all of today's SDKs answer.
PROTOCOL = "2025-06-18"
# Seconds a server has to leave by itself after its stdin is closed.
GRACE = 5.0
METHOD_NOT_FOUND = -32601


class Refused(Exception):
    """The server answered a request with an error, in its own words."""


class McpServer:
    """A running server after its handshake; it ends with `end()` or with this object."""

    def __init__(self, command: Sequence[str], *, timeout: float) -> None:
        self._command, self._timeout = " ".join(command), timeout
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives with the server)
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,  # so that a launcher such as npx ends with its child
            )
        except OSError as error:
            self._stderr.close()
            raise EnvError(
                f"MCP server {self._command!r} does not start: {error}",
                hint=f"make it run by hand: {self._command}",
            ) from error
        self.end = weakref.finalize(self, _end, self._process, self._stderr)
        self._numbers = count(1)
        self._handshake()

    @property
    def alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Every tool the server offers, in its order: name, description, inputSchema."""
        found: list[Mapping[str, Any]] = []
        cursor: Mapping[str, Any] = {}
        while True:
            page = self._asked("tools/list", cursor)
            found += page["tools"]
            if not page.get("nextCursor"):
                return tuple(found)
            cursor = {"cursor": page["nextCursor"]}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of one tool call."""
        return self._asked("tools/call", {"name": tool, "arguments": arguments})

    def read(self, uri: str) -> Mapping[str, Any]:
        """The contents of one resource."""
        return self._asked("resources/read", {"uri": uri})

    def _handshake(self) -> None:
        client = {"name": "fedse", "version": "1"}
        offer = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        try:
            self._asked("initialize", offer)
            self._send({"method": "notifications/initialized"})
        except (Refused, OSError) as error:
            raise self._failed(f"did not accept MCP {PROTOCOL}: {error}") from error

    def _asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.end.alive:
            raise self._failed(f"has ended before {method}")
        number, late = next(self._numbers), Event()
        # A killed server breaks the pipe, so neither the write nor the read can hang.
        watchdog = Timer(self._timeout, _give_up, (self._process, late))
        watchdog.daemon = True
        watchdog.start()
        try:
            # A server that ended before it was asked may have said why; that waits to be read.
            with suppress(BrokenPipeError):
                self._send({"id": number, "method": method, "params": params})
            return self._answer(number)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            if late.is_set():
                raise self._failed(f"gave no answer to {method} in {self._timeout:g} s") from error
            raise self._failed(f"broke off in {method}: {error}") from error
        finally:
            watchdog.cancel()

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False)
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _answer(self, number: int) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.strip():
                continue
            try:
                message: Mapping[str, Any] = json.loads(line)
            except ValueError:
                raise ValueError(f"expected JSON on its stdout, got {line[:80]!r}") from None
            if "method" in message:
                self._reply(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise Refused(str(message["error"].get("message", "refused")))
                result: Mapping[str, Any] = message["result"]
                return result
        raise EOFError("it closed its stdout")

    def _reply(self, message: Mapping[str, Any]) -> None:
        """A server may ask too; it is told that it lives, and that nothing else is offered."""
        if "id" not in message:
            return
        if message["method"] == "ping":
            self._send({"id": message["id"], "result": {}})
        else:
            error = {"code": METHOD_NOT_FOUND, "message": "this client offers nothing"}
            self._send({"id": message["id"], "error": error})

    def _failed(self, what: str) -> EnvError:
        """The server is ended; the error quotes the last line of its stderr."""
        said = b""
        if self.end.alive:
            _kill(self._process)
            self._stderr.seek(0)
            said = self._stderr.read()
        self.end()
        last = (said.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
        return EnvError(
            f"MCP server {self._command!r} {what}; its stderr ends with: {last[:200]}",
            hint=f"make it run by hand: {self._command}",
        )


def _give_up(process: subprocess.Popen[bytes], late: Event) -> None:
    late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    """Closed stdin is how a stdio server is told to leave; one that stays is killed."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    stderr.close()
