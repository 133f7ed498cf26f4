"""A fresh federation for a test."""

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.federation.scene import Scene, make_scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)
