"""The moments of a run: a round that is done again begins as it began the first time."""

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.store.moments_folder import MomentsFolder


@settings(max_examples=20, deadline=None)
@given(repeats=st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_however_often_a_round_is_done_it_begins_with_those_of_the_one_before(
    repeats: list[int], tmp_path_factory: pytest.TempPathFactory
):
    folder = MomentsFolder(tmp_path_factory.mktemp("run") / "moments")
    for round, times in enumerate(repeats, start=1):
        for _ in range(times):
            expected = str(round - 1).encode() if round > 1 else None
            assert folder.before(round) == expected
            folder.keep(round, str(round).encode())
        assert len(list(folder.path.iterdir())) == min(round, 2)


def test_nobody_else_can_read_them(tmp_path: Path):
    folder = MomentsFolder(tmp_path / "moments")
    folder.keep(1, b"one")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (folder.path, *folder.path.iterdir())]
    assert modes == [0o700, 0o600]
