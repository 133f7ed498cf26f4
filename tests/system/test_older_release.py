"""A run that a release was interrupted in is opened with everything it had, and ended."""

from pathlib import Path

import pytest

from fedse.store.buffer_schema import SCHEMA_VERSION
from tests.system.field import REPOSITORY
from tests.system.older_release import Opened, open_older


@pytest.mark.slow
def test_a_run_of_an_installed_release_is_opened_and_ended(tmp_path: Path):
    """Of this one, whose schema is up to date; wheels of older commits are for research."""
    assert open_older(REPOSITORY, tmp_path) == Opened(
        schemas=(SCHEMA_VERSION,) * 2,
        lessons=14,
        games=24,
        answers=4,
        all_there=True,
        copies_equal=False,  # there is none
        ledgers_sound=True,
        rounds=3,
    )
