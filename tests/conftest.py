"""Settings and fixtures all tests share."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.federation.scene import Scene

# How long one example takes depends on what else the machine does, which is no property of ours.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.fixture
def scene(tmp_path: Path) -> "Scene":
    """A fresh federation of two sites."""
    from tests.federation.scene import make_scene

    return make_scene(tmp_path)
