"""A bad line between a site and the federation's port: bytes pass, late, cut short or not at all.

What passes is TLS, so the line knows sizes and turns only. A request is what a connection carries
up between two answers; the only large ones are a site's adapters, here called uploads. A relay
cannot replay TLS: a request is delivered twice where its answer was lost, so the line loses that.
"""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import tomlkit

# More than any request of Flower 1.41 without an adapter, by far.
LARGE = 64 * 1024
CHUNK = 16 * 1024
# Seconds without a byte upwards after which an upload of which no answer came back is complete.
QUIET_SECONDS = 1.0
# Seconds in which the bytes before a cut arrive.
CUT_SECONDS = 0.5
HOST = "127.0.0.1"
CUT, SWALLOWED, ANSWERED, LOST = "cut", "swallowed", "answered", "lost"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamWriter]
Due = asyncio.Queue[tuple[float, bytes]]
"""Pieces and when each is to be written."""


@dataclass
class Upload:
    """A large request of the site and what became of it."""

    began: float
    bytes: int
    fate: str = ""
    """Empty while it is under way."""
    ended: float = 0.0

    def end(self, fate: str) -> None:
        """It has this fate, unless it had one before."""
        if not self.fate:
            self.fate, self.ended = fate, time.time()


@dataclass
class Outage:
    began: float
    ends: float
    broken: int = 0
    """Connections that were open and were reset."""
    refused: int = 0
    """Connections the site tried to open meanwhile, each reset."""


class Wire:
    """One connection of the site, relayed."""

    def __init__(self, line: "BadLine", ends: Ends) -> None:
        self._line, self._ends = line, ends
        self._sent, self._upload = 0, Upload(0.0, 0, ANSWERED)
        self._heard_at = 0.0
        self._ending: asyncio.Task[None] | None = None
        self.swallows = False

    async def run(self) -> None:
        """The connection is over; an upload that was under way has its fate."""
        from_site, to_site, from_server, to_server = self._ends
        await asyncio.gather(
            self._pass(from_site, to_server, self._carry_up),
            self._pass(from_server, to_site, self._carry_down),
        )
        self._upload.end(LOST)

    def break_off(self) -> None:
        for writer in (self._ends[1], self._ends[3]):
            reset(writer)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        carry: Callable[[int], bool],
    ) -> None:
        """Everything read was written `latency` later, in its order, while `carry` allowed it."""
        due: Due = asyncio.Queue()
        late = asyncio.create_task(deliver(due, writer))
        try:
            while data := await reader.read(CHUNK):
                if carry(len(data)):
                    due.put_nowait((time.monotonic() + self._line.latency, data))
        except OSError:
            self.break_off()
        # A server whose answer is swallowed must not learn that nobody hears it.
        if not self.swallows:
            due.put_nowait((time.monotonic() + self._line.latency, b""))
            await late

    def _carry_up(self, size: int) -> bool:
        """Whether these bytes of the site pass; none does after a cut."""
        if self._upload.fate == CUT:
            return False
        self._sent += size
        self._heard_at = time.monotonic()
        if self._sent > LARGE:
            if self._upload.fate:
                self._upload = self._line.begin_upload(self)
            self._upload.bytes = self._sent
            if self._line.took(CUT):
                self._upload.end(CUT)
                self._ending = asyncio.create_task(self._cut())
        return self._upload.fate != CUT

    def _carry_down(self, size: int) -> bool:
        """Whether these bytes of the server pass; the answer to an upload may be lost."""
        if self.swallows:
            return False
        if LARGE < self._sent < self._line.whole:
            return True  # TLS tickets, which a server sends while the first request comes in
        if not self._upload.fate and self._line.took(SWALLOWED):
            self.swallows = True
            self._ending = asyncio.create_task(self._hang_up())
            return False
        self._upload.end(ANSWERED)
        self._sent = 0
        return True

    async def _cut(self) -> None:
        """What passed before has reached the server, and nothing more will."""
        await asyncio.sleep(self._line.latency + CUT_SECONDS)
        self.break_off()

    async def _hang_up(self) -> None:
        """The site's end is reset once it has said all; the server's end stays open."""
        while time.monotonic() < self._heard_at + QUIET_SECONDS:
            await asyncio.sleep(0.1)
        self._upload.end(SWALLOWED)
        reset(self._ends[1])


class BadLine:
    """Passes on what comes to `port`; orders are for the next upload that begins."""

    def __init__(self, to_port: int, *, adapter_bytes: int, latency: float = 0.0) -> None:
        self.latency = latency
        """Seconds by which each direction is late."""
        self.whole = adapter_bytes - LARGE
        """Bytes from which on an upload may have been answered; tickets may hide the first."""
        self.uploads: list[Upload] = []
        self.outages: list[Outage] = []
        self.connections = 0
        self._to_port, self._ordered = to_port, set[str]()
        self._wires, self._alone = set[Wire](), 0.0
        self._held: list[Wire] = []
        """Over for the site; the server's end is open until the line is closed."""
        self._socket = socket.create_server((HOST, 0))
        self.port = int(self._socket.getsockname()[1])
        self._open = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._open.wait()

    def cut(self) -> None:
        """The next upload will be reset when LARGE bytes of it have passed."""
        self._ordered.add(CUT)

    def swallow(self, *, parted: float = 0.0) -> None:
        """The next upload will reach the server whole, and the site will not hear of that.

        Nothing else passes for `parted` seconds from when it begins.
        """
        self._ordered.add(SWALLOWED)
        self._alone = parted

    def part(self, seconds: float) -> None:
        """Nothing passes for `seconds`: what is open is reset, and so is what is opened."""
        self._loop.call_soon_threadsafe(self._break_all, seconds, None)

    def _break_all(self, seconds: float, but: Wire | None) -> None:
        now, broken = time.time(), self._wires - {but}
        self.outages.append(Outage(now, now + seconds, broken=len(broken)))
        for wire in broken:
            wire.break_off()

    def took(self, order: str) -> bool:
        """Whether it was ordered; it is no more."""
        if order in self._ordered:
            self._ordered.remove(order)
            return True
        return False

    def begin_upload(self, wire: Wire) -> Upload:
        if SWALLOWED in self._ordered and self._alone:
            self._break_all(self._alone, wire)
        self.uploads.append(Upload(time.time(), 0))
        return self.uploads[-1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._met, sock=self._socket):
            self._open.set()
            await self._closing.wait()
            for wire in (*self._wires, *self._held):
                wire.break_off()

    async def _met(self, from_site: asyncio.StreamReader, to_site: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.outages and time.time() < self.outages[-1].ends:
            self.outages[-1].refused += 1
            reset(to_site)
            return
        try:
            server = await asyncio.open_connection(HOST, self._to_port)
        except OSError:  # the server does not listen yet
            reset(to_site)
            return
        wire = Wire(self, (from_site, to_site, *server))
        self._wires.add(wire)
        # Cancelled when the line is closed, of which nobody needs to hear.
        with suppress(asyncio.CancelledError):
            await wire.run()
        self._wires.discard(wire)
        if wire.swallows:
            self._held.append(wire)


async def deliver(due: Due, writer: asyncio.StreamWriter) -> None:
    """Each piece was written when it was due; an empty one ended the conversation."""
    with suppress(OSError):
        while True:
            when, data = await due.get()
            await asyncio.sleep(max(0.0, when - time.monotonic()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """The peer hears RST, not the end of a conversation."""
    end = writer.get_extra_info("socket")
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def bad_line(home: Path, *, adapter_bytes: int, latency: float = 0.0) -> Iterator[BadLine]:
    """The site of `home`, once started, calls its server over this line."""
    file = home / "site.toml"
    card = tomlkit.parse(file.read_text())
    host, _, port = str(card["server"]).rpartition(":")
    line = BadLine(int(port), adapter_bytes=adapter_bytes, latency=latency)
    # The certificate is for the host, so the name stays.
    card["server"] = f"{host}:{line.port}"
    file.write_text(tomlkit.dumps(card))
    try:
        yield line
    finally:
        line.close()
