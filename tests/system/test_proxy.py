"""A site that may only go out through a proxy takes part, and the proxy reads nothing of it."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from tests.system.field import SHORT_ROUND, Field, maze_clients, undisturbed

EXPERIMENT = f"""[run]
name = "proxied"
rounds = 1
[eval]
episodes = 0
{SHORT_ROUND}
{maze_clients(["alpha"])}"""
HANDSHAKE = 0x16
"""The first byte of a connection that begins with TLS."""


class ConnectProxy:
    """Takes CONNECT and nothing else; remembers where to, and what went through."""

    def __init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.asked: list[str] = []
        self.passed: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # the door was closed
            while True:
                caller, _ = self._door.accept()
                threading.Thread(target=self._connect, args=(caller,), daemon=True).start()

    def _connect(self, caller: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += caller.recv(1)
        method, target, *_ = head.decode().split()
        self.asked.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        sent: list[bytes] = []
        # A server that does not listen yet, or a caller that has gone.
        with (
            suppress(OSError),
            caller,
            socket.create_connection((host, int(port))) as server,
        ):
            caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=self._pass, args=(server, caller, []))
            back.start()
            self._pass(caller, server, sent)
            back.join()
        self.passed.append(b"".join(sent))

    def _pass(self, source: socket.socket, target: socket.socket, seen: list[bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                seen.append(data)
                target.sendall(data)
        with suppress(OSError):  # the other side may have closed it
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._door.close()


class Proxied(Field):
    """Its sites know the way through the proxy only."""

    proxy: ConnectProxy

    def environment(self, name: str) -> Mapping[str, str]:
        plain = {k: v for k, v in super().environment(name).items() if k.lower() != "no_proxy"}
        return plain if name == "server" else {**plain, "HTTPS_PROXY": self.proxy.address}


@contextmanager
def proxied(path: Path) -> Iterator[Proxied]:
    made = Proxied(path, EXPERIMENT, light=True)
    made.proxy = ConnectProxy()
    try:
        yield made
    finally:
        made.end()
        made.proxy.close()


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_site_behind_a_proxy_votes_and_all_that_passes_is_encrypted(tmp_path: Path):
    with proxied(tmp_path / "field") as f:
        f.start_server()
        f.start_site("alpha")
        assert f.wait_for_end(300) == 0
        (result,) = f.results()
        said = (f.path / "alpha.log").read_text()
    port = f.federation.card.port
    assert set(f.proxy.asked) == {f"CONNECT localhost:{port}"}
    assert all(data[0] == HANDSHAKE for data in f.proxy.passed if data)
    assert not any(b"alpha" in data or b"fleet" in data for data in f.proxy.passed)
    assert f"connects to localhost:{port} through the proxy {f.proxy.address}" in said
    (local,), _ = undisturbed(tmp_path, EXPERIMENT, light=True)
    assert (result.voters, result.after) == (("alpha",), local.after)
