"""A port that is taken is named before anything is started, with who has it."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fedse.errors import MachineError
from fedse.flower.ops import serve_federation
from fedse.ports import why_not_free
from tests.federation.scene import Scene
from tests.needs import needs

needs("flwr")

HERE = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HERE, 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("host", [HERE, ""])
def test_who_has_a_port_is_named(taken: int, host: str):
    me = f"{psutil.Process().name()} (process {os.getpid()})"
    assert why_not_free(host, taken) == f"it is taken by {me}"


def test_without_the_means_to_know_it_is_somebody(taken: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert why_not_free(HERE, taken) == "it is taken by another process"


def test_a_port_that_was_left_is_free():
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((HERE, port)), server.accept()[0]:
            pass
    assert why_not_free(HERE, port) == ""


def test_a_port_that_is_not_allowed_is_told_apart(monkeypatch: pytest.MonkeyPatch):
    """As the kernel answers a user who is not root."""

    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", forbidden)
    assert why_not_free(HERE, 1) == "Permission denied"


@pytest.mark.parametrize(
    ("which", "what", "option"),
    [("link_port", "SuperLink", "--link-port"), ("port", "nginx", "--port")],
)
def test_a_federation_is_not_started_where_a_port_is_taken(
    scene: Scene, taken: int, monkeypatch: pytest.MonkeyPatch, which: str, what: str, option: str
):
    monkeypatch.setattr(serve_federation.shutil, "which", lambda name: f"/usr/sbin/{name}")
    free = {"port": _free(), "link_port": _free()} | {which: taken}
    card = scene.federation.card.model_copy(update=free)
    federation = scene.federation._replace(card=card)
    with (
        pytest.raises(MachineError, match=f"^{what} cannot use port {taken}: it is taken by ") as e,
        serve_federation.serving(federation, proxy=True),
    ):
        pass
    assert f"{option} PORT" in e.value.hint
    assert _started(scene.federation.path) == []


def _free() -> int:
    with socket.create_server((HERE, 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _started(folder: Path) -> list[str]:
    return [log.name for log in (folder / "logs").glob("*.log")]
