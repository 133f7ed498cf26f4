"""Coordinator and sites of two releases work in one round, in every mixture."""

from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from tests.system.field import REPOSITORY
from tests.system.upgrade import Upgraded, later_release, upgrade


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_members_change_to_another_release_one_after_another(tmp_path: Path):
    releases = {"old": REPOSITORY, "new": later_release(tmp_path / "later")}
    found = upgrade(tmp_path, releases)
    assert found == Upgraded(digest_equal=True, absent=0, ledgers_sound=True)
