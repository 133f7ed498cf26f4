"""An outsider without a key neither takes all connections nor the memory: a real nginx.

The SuperLink behind it is a stand-in that counts what reaches it. The outsider comes from another
address of the loopback network than the sites.
"""

import http.client
import http.server
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from fedse.federation.keys import make_identity
from fedse.federation.nginx import (
    MAX_BODY,
    MAX_OBJECT,
    REQUESTS_PER_SITE,
    REQUESTS_TO_SPARE,
    most_objects,
    nginx_config,
)
from fedse.ports import free_ports
from fedse.waiting import wait_until
from tests.needs import needs

needs("cryptography", "nginx")

pytestmark = pytest.mark.slow

OUTSIDER, SITE = "127.0.0.2", "127.0.0.1"
SITES = 2
MOST = REQUESTS_PER_SITE * SITES + REQUESTS_TO_SPARE
TRICKLING, STALLED = 540, 40
OBJECT = "/v1/fleet/push-object"
SHORT = "/v1/fleet/pull-messages"
MEGABYTE = 1 << 20


class Behind(http.server.ThreadingHTTPServer):
    """Stands for the SuperLink: takes every request and counts them."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, certificate: Path, key: Path) -> None:
        super().__init__((SITE, port), Counting)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.begun = 0


class Counting(http.server.BaseHTTPRequestHandler):
    server: Behind

    def do_POST(self) -> None:
        self.server.begun += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


class Proxy(NamedTuple):
    port: int
    ca: Path
    behind: Behind
    pid: int

    def memory(self) -> int:
        """Of nginx and its worker, in bytes."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sum(resident(int(pid)) for pid in (self.pid, *children))

    def connect(self, address: str) -> ssl.SSLSocket:
        plain = socket.create_connection((SITE, self.port), 30, source_address=(address, 0))
        context = ssl.create_default_context(cafile=self.ca)
        return context.wrap_socket(plain, server_hostname="localhost")

    def asks(self, path: str, size: int, *, sends: bool = True) -> int:
        """How a site's request of this size is answered."""
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=60, context=context
        )
        try:
            connection.putrequest("POST", path)
            connection.putheader("content-length", str(size))
            connection.endheaders(bytes(size) if sends else b"")
            return connection.getresponse().status
        finally:
            connection.close()


def resident(pid: int) -> int:
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    identity = make_identity(tmp_path / "keys")
    (tmp_path / "logs").mkdir()
    port, link = free_ports(2)
    text = nginx_config(tmp_path, host="localhost", port=port, link_port=link, sites=SITES)
    (tmp_path / "nginx.conf").write_text(text)
    behind = Behind(link, identity.certificate, identity.key)
    threading.Thread(target=behind.serve_forever, daemon=True).start()
    place = ["-p", f"{tmp_path}/", "-c", str(tmp_path / "nginx.conf"), "-e", "logs/nginx-error.log"]
    nginx = subprocess.Popen(["nginx", *place])
    try:
        assert wait_until((tmp_path / "nginx.pid").exists, seconds=30, every=0.05)
        yield Proxy(port, identity.ca, behind, nginx.pid)
    finally:
        nginx.terminate()
        nginx.wait(30)
        behind.shutdown()
        behind.server_close()


def post(path: str, size: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()


def trickle(proxy: Proxy, stack: ExitStack) -> list[ssl.SSLSocket]:
    """As many requests as an outsider likes, each with one byte of its body."""
    held = []
    for _ in range(TRICKLING):
        held.append(stack.enter_context(proxy.connect(OUTSIDER)))
        held[-1].sendall(post(SHORT, 1000) + b"\0")
    return held


def test_who_holds_hundreds_of_requests_open_holds_up_nobody_else(proxy: Proxy):
    with ExitStack() as stack:
        held = trickle(proxy, stack)
        assert [proxy.asks(SHORT, 100) for _ in range(3)] == [200] * 3
        refused = 0
        for connection in held:
            connection.settimeout(0.01)
            with suppress(TimeoutError):
                refused += b" 503 " in connection.recv(100)
        # Who was taken is cut off after a while, and others are taken instead.
        assert refused > TRICKLING / 2 > MOST
        assert proxy.behind.begun == 3, "what is not whole does not reach the SuperLink"


def test_bodies_that_stall_cost_neither_the_proxy_nor_the_superlink_their_size(proxy: Proxy):
    assert proxy.asks(OBJECT, MEGABYTE) == 200
    before = proxy.memory()
    with ExitStack() as stack:
        for _ in range(STALLED):
            connection = stack.enter_context(proxy.connect(OUTSIDER))
            with suppress(ConnectionError):  # who is refused is not listened to for long
                connection.sendall(post(OBJECT, 6 * MEGABYTE))
                for _ in range(5):
                    connection.sendall(bytes(MEGABYTE))
        assert proxy.asks(OBJECT, 5 * MEGABYTE) == 200
        kept = (most_objects(SITES) + 1) * 6 * MEGABYTE
        assert proxy.memory() - before < 1.5 * kept < STALLED * 5 * MEGABYTE / 2
        assert proxy.behind.begun == 2, "nothing of it came to the SuperLink"


def test_only_an_object_may_be_large(proxy: Proxy):
    assert (MAX_OBJECT, MAX_BODY) == ("6m", "64k")
    assert proxy.asks(OBJECT, 6 * MEGABYTE) == 200
    assert proxy.asks(OBJECT, 6 * MEGABYTE + 1, sends=False) == 413
    assert proxy.asks(SHORT, 64 << 10) == 200
    assert proxy.asks(SHORT, (64 << 10) + 1, sends=False) == 413


def test_a_client_that_sends_nothing_more_is_cut_off(proxy: Proxy, tmp_path: Path):
    """With a shorter time than ours, so that nobody has to wait for it."""
    file = tmp_path / "nginx.conf"
    file.write_text(re.sub(r"(_timeout) 10s", r"\1 1s", file.read_text()))
    subprocess.run(["kill", "-HUP", str(proxy.pid)], check=True)

    def is_cut_off() -> bool:
        with proxy.connect(OUTSIDER) as connection:
            connection.settimeout(4)
            connection.sendall(post(SHORT, 1000) + b"\0")
            try:
                answer = connection.recv(100)
            except TimeoutError:
                return False
            return answer == b"" or b" 408 " in answer

    assert wait_until(is_cut_off, seconds=60, every=0.5)
