"""Settings and fixtures all tests share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.federation.scene import Scene

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
