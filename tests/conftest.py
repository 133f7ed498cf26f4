"""Settings and fixtures all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from fedse.types import Adapter
    from tests.federation.scene import Scene
    from tests.toys.federation import ServeToy

# Processes that tests start import this package and the worlds of tests.toys by name.
HERE = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(HERE)

# How long one example takes depends on what else the machine does, which is no property of ours.
settings.register_profile("local", deadline=None)
# The same examples in every run of CI, new ones at every run on a desk.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

MEMORY, ROOM_BYTES = Path("/dev/shm"), 1 << 30


def holds_test_folders(place: Path) -> bool:
    """Whether there is room for what tests write, programs that they start included."""
    if not os.access(place, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(place)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM_BYTES


# What is durable after a power cut no test can see, and waiting for a disk is most of the time that
# a toy run takes. A folder in memory outlives a killed process all the same.
if holds_test_folders(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture
def scene(tmp_path: Path) -> "Scene":
    """A fresh federation of two sites."""
    from tests.federation.scene import make_scene

    return make_scene(tmp_path)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short path: the name of a local socket has 107 bytes at most."""
    with TemporaryDirectory(prefix="fedse-") as folder:
        yield Path(folder)


@pytest.fixture
def serve_toy(tmp_path: Path, sockets: Path) -> "Iterator[ServeToy]":
    """Starts a worker of toy sites in a thread and gives its socket."""
    from tests.toys.serving import toy_workers

    with toy_workers(tmp_path, sockets / "own" / "worker.sock") as start:
        yield start


@pytest.fixture
def adapter() -> "Adapter":
    """One of the toy federation."""
    from fedse.testing import toy_adapter
    from tests.toys.federation import SPEC

    return toy_adapter(SPEC, 1)


@pytest.fixture
def task_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages only inside one of its tasks."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
