"""Processes of a federation: a dead one is named with its last words, all are ended in the end."""

import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.needs import needs

needs("cryptography")

from fedse import ports
from fedse.errors import MachineError, RunError
from fedse.federation.keys import make_identity, make_node_key
from fedse.flower.ops.commands import QUIET, environment, healthy
from fedse.ports import free_ports
from fedse.processes import group as processes
from fedse.processes.group import Processes
from tests.toys.federation import lives

PYTHON = sys.executable
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    print("up", flush=True)
time.sleep(60)
"""


def python(code: str) -> list[str]:
    return [PYTHON, "-c", code]


def never() -> bool:
    return False


def test_a_process_that_dies_is_named_with_its_last_words(tmp_path: Path):
    with Processes(tmp_path, os.environ) as running:
        running.start("node-alpha", python("print('no such key'); raise SystemExit(3)"))
        with pytest.raises(RunError, match=r"node-alpha ended with exit code 3\n  \| no such key"):
            running.wait_for("anything", never, seconds=20)


def test_a_command_that_fails_is_named(tmp_path: Path):
    with Processes(tmp_path, os.environ) as running:
        with pytest.raises(RunError, match="register exited with 2"):
            running.succeed({"register": python("raise SystemExit(2)")}, seconds=20)
        with pytest.raises(RunError, match="slow did not end in 0 s"):
            running.succeed({"slow": python("import time; time.sleep(60)")}, seconds=0)


def test_what_never_gets_ready_is_an_error_and_not_a_hang(tmp_path: Path):
    with (
        Processes(tmp_path, os.environ) as running,
        pytest.raises(RunError, match="superlink was not ready after 0 s"),
    ):
        running.wait_for("superlink", never, seconds=0.1)


def test_a_whole_group_is_ended_even_if_it_will_not(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(processes, "END_SECONDS", 0.5)
    with Processes(tmp_path, os.environ) as running:
        started = running.start("stubborn", python(STUBBORN))
        running.wait_for("up", lambda: "up" in started.log.read_text(), seconds=20)
    assert started.process.returncode == -9
    ends = time.monotonic() + 10
    while time.monotonic() < ends and lives(started.process.pid):
        time.sleep(0.05)
    assert not lives(started.process.pid)


def test_what_an_earlier_process_said_is_kept(tmp_path: Path):
    with Processes(tmp_path, os.environ) as running:
        logs = [running.succeed({"run": python(f"print({i})")}, seconds=20) for i in range(2)]
    assert [[log.name for log in each] for each in logs] == [["run.log"], ["run-2.log"]]
    assert (tmp_path / "run.log").read_text() == "0\n"


def test_flower_is_told_to_be_quiet(tmp_path: Path):
    given = environment(tmp_path)
    assert QUIET.items() <= given.items()
    assert given["FLWR_HOME"] == str(tmp_path)
    assert given["PATH"].startswith(str(Path(PYTHON).parent))


def test_a_port_is_given_to_one_process_only_while_it_lives():
    code = "from fedse.ports import free_ports; print(*free_ports(6)); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(python(code), **pipes) as one,
        subprocess.Popen(python(code), **pipes) as two,
    ):
        given = [int(port) for other in (one, two) for port in other.stdout.readline().split()]
        ports = [*given, *free_ports(6), *free_ports(6)]
        assert len(set(ports)) == len(ports) == 24
        for port in ports:
            socket.create_server(("127.0.0.1", port)).close()
        for other in (one, two):
            other.communicate("")


def test_a_port_that_somebody_listens_at_is_not_given(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        port = everywhere.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(MachineError, match=f"no 1 ports are free from {port} to {port}"):
            free_ports(1)


def test_the_certificate_is_for_this_machine_and_keys_are_private(tmp_path: Path):
    identity, node = make_identity(tmp_path / "keys"), make_node_key(tmp_path / "node")
    context = ssl.create_default_context(cafile=identity.ca)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(identity.certificate, identity.key)
    for host in ("localhost", "127.0.0.1"):
        shake_hands(context, server, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, server, "example.org")
    for secret in (identity.key, node.private):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert node.public.read_text().startswith("ecdsa-sha2-nistp384 ")
    assert make_node_key(tmp_path / "node") == node


def shake_hands(client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert waiting == []


class Health(BaseHTTPRequestHandler):
    """200 at /health, as a SuperLink has it."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("tls", [False, True])
def test_health_is_a_200_from_whom_the_authority_vouches_for(
    tmp_path: Path, tls: bool, monkeypatch: pytest.MonkeyPatch
):
    """No proxy is asked: the SuperLink is on this machine."""
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_ports(1)[0]}")
    identity, other = (make_identity(tmp_path / name) for name in ("own", "other"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        address = f"127.0.0.1:{server.server_port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.certificate, identity.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        assert [healthy(address, ca) for ca in (identity.ca, other.ca, None)] == [
            tls,
            False,
            not tls,
        ]
        assert not healthy(f"{address}/elsewhere", identity.ca if tls else None)
        server.shutdown()
        serving.join()
    assert not healthy(address, identity.ca), "nobody is there"


def test_the_newest_logs_of_a_name_are_kept_and_no_others(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("fedse.processes.log_files.KEPT_LOGS", 2)
    (tmp_path / "run-x.log").write_text("of somebody else")
    with Processes(tmp_path, {}) as running:
        logs = [running.succeed({"run": python(f"print({i})")}, seconds=20) for i in range(4)]
    assert {f.name for f in tmp_path.glob("*.log")} == {"run-3.log", "run-4.log", "run-x.log"}
    assert logs[-1][0].read_text() == "3\n"
