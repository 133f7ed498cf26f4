"""Only a site's own user gets its work: Flower's own SuperNode API, client and executor."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.needs import needs

needs("flwr")

import httpx
import uvicorn
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.superexec.executor import ExecutionSpec
from flwr.supernode.cli import flower_supernode as cli
from flwr.supernode.nodestate import NodeStateFactory

from fedse.flower.patches import runtime_socket
from fedse.flower.patches.runtime_socket import EXECUTOR, ask_at, serve_at
from fedse.ports import free_ports

ACQUIRE = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])


@pytest.fixture
def runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, NodeStateFactory, int]]:
    """A SuperNode's API that serves where it is told to, its state, and the port it was given."""
    # Flower's API has no websockets, and their package warns when it is loaded.
    monkeypatch.setattr(uvicorn, "Config", partial(uvicorn.Config, ws="none"))
    monkeypatch.setattr(ProtobufClient, "__init__", ProtobufClient.__init__)
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    place, port = folder / "node.sock", free_ports(1)[0]
    states = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
    given = {"superexec_auth_secret": None, "host": "127.0.0.1", "port": port}
    config = SimpleNamespace(**given, runtime_ssl_certfile=None, runtime_ssl_keyfile=None)
    serve_at(place)
    server, thread = import_module(cli.__module__)._start_supernode_http_api(config, states)
    yield place, states, port
    server.should_exit = True
    thread.join(20)


def ask(port: int) -> bool:
    """Whether a task was got, as Flower's SuperExec asks for one."""
    with RuntimeHttpClient.from_server_address(f"127.0.0.1:{port}", True, None, []) as client:
        return client.AcquireTask(ACQUIRE).HasField("task")


def test_a_task_is_given_at_the_socket_and_at_no_port(runtime):
    place, states, port = runtime
    assert states.state().create_task(task_type=TaskType.CLIENT_APP, run_id=1, fab_hash="f")
    with pytest.raises(httpx.ConnectError):
        ask(port)
    with socket.socket() as thief, pytest.raises(ConnectionRefusedError):
        thief.connect(("127.0.0.1", port))
    ask_at(place)
    assert ask(port), "the site's own SuperExec gets it"
    assert not ask(port)


def test_nobody_else_can_reach_the_socket(runtime):
    place, _, _ = runtime
    folder = place.parent.stat()
    assert stat.S_IMODE(folder.st_mode) == 0o700
    assert folder.st_uid == os.getuid()


def test_a_token_is_not_in_the_list_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Through Flower's own executor: the app has its token, and its command line has not."""
    executor = import_module(EXECUTOR)
    monkeypatch.setattr(executor, "subprocess", executor.subprocess)
    monkeypatch.setattr(import_module("flwr.supercore.cli.flower_superexec"), "flower_superexec",
                        lambda: None)  # fmt: skip
    monkeypatch.setattr(ProtobufClient, "__init__", ProtobufClient.__init__)
    runtime_socket.run_superexec(str(tmp_path / "node.sock"))
    program, told = tmp_path / "flwr-clientapp", tmp_path / "told"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "line = open('/proc/self/cmdline').read()\n"
        f"open({str(told)!r}, 'w').write(line + '|' + sys.stdin.read())\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    spec = ExecutionSpec(
        task_type=TaskType.CLIENT_APP, runtime_api_address="127.0.0.1:1", token="ab" * 16,
        insecure=True, root_certificates_path=None, runtime_dependency_install=False,
        parent_pid=None, suppress_output=False, task_id=1, fab_hash=None,
    )  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    plain_start = executor.subprocess.Popen
    monkeypatch.setattr(
        executor.subprocess, "Popen", lambda *a, **o: started.append(plain_start(*a, **o))
    )
    executor.SubprocessExecutor().launch(spec)
    assert started[0].wait(60) == 0
    seen, _, taken = told.read_text().partition("|")
    assert "ab" * 16 not in seen
    assert "--token-stdin\0--insecure" in seen
    assert taken == f"{'ab' * 16}\n"
