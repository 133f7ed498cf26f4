"""A file is whole or not there: the order in which the disk is told, and what a failure leaves."""

import os
from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.store.files import write_durably


def names_of(descriptor: int) -> str:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the disk was asked for, in order; the names of files as they were then."""
    asked: list[tuple[str, ...]] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        asked.append(("sync", names_of(descriptor)))
        fsync(descriptor)

    def note_replace(path: Path, target: Path) -> Path:
        asked.append(("rename", path.name, target.name))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    return asked


def test_the_bytes_are_on_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, told: list[tuple[str, ...]]
):
    """Or a power cut could leave a name with no bytes, or take away what was promised."""
    write_durably(tmp_path / "blob", b"x" * 100_000)
    temporary = f".blob.{os.getpid()}"
    assert told == [("sync", temporary), ("rename", temporary, "blob"), ("sync", tmp_path.name)]
    assert (tmp_path / "blob").read_bytes() == b"x" * 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["blob"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "blob").write_bytes(b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        write_durably(tmp_path / "blob", b"after")
    assert (tmp_path / "blob").read_bytes() == b"before"
