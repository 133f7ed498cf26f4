"""A file is whole or not there, and private from its first byte."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.store.files import (
    OWNER_ONLY,
    new_file,
    new_folder,
    write_durably,
    write_if_possible,
    write_whole,
)


@pytest.fixture(autouse=True)
def _everything_allowed() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("write", [write_whole, write_durably, write_if_possible])
def test_what_is_written_is_there_alone_and_with_its_mode(tmp_path: Path, write):
    for data, wanted in [(b"one", OWNER_ONLY), (b"", 0o666)]:
        write(tmp_path / "a", data, mode=wanted)
        assert (tmp_path / "a").read_bytes() == data
        assert mode(tmp_path / "a") == wanted
        assert names(tmp_path) == ["a"]


def test_a_private_file_is_private_while_it_is_filled(tmp_path: Path):
    left = tmp_path / f".key.{os.getpid()}"
    left.write_bytes(b"of a process that was killed")
    with new_file(tmp_path / "key", mode=OWNER_ONLY) as file:
        assert (file.stat().st_size, mode(file)) == (0, OWNER_ONLY)
        assert not (tmp_path / "key").exists()
        file.write_bytes(b"secret")
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert names(tmp_path) == ["key"]


def test_what_fails_leaves_what_was_there(tmp_path: Path):
    write_whole(tmp_path / "a", b"before")

    def interrupted() -> None:
        with new_file(tmp_path / "a") as file:
            file.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "a").read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("write", [write_whole, write_durably])
def test_where_nothing_can_be_written_the_file_is_named(tmp_path: Path, write):
    with pytest.raises(StoreError, match=f"^write {tmp_path}/no/a: No such file or directory$"):
        write(tmp_path / "no" / "a", b"")


def test_what_need_not_be_written_fails_silently_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_if_possible(tmp_path / "no" / "a", b"")
    assert names(tmp_path) == []
    write_whole(tmp_path / "a", b"before")

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    write_if_possible(tmp_path / "a", b"after")
    assert (tmp_path / "a").read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


def test_a_durable_file_is_on_disk_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(file: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        fsync(file)

    def replaced(self: Path, target: Path) -> Path:
        order.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_durably(tmp_path / "a", b"data")
    assert order == ["file", "name", "folder"]


def test_a_new_folder_is_whole_or_absent(tmp_path: Path):
    target = tmp_path / "in" / "a"

    def interrupted() -> None:
        with new_folder(target) as folder:
            (folder / "file").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(target.parent) == []
    with new_folder(target) as folder:
        (folder / "file").write_bytes(b"whole")
        assert not target.exists()
    assert names(target.parent) == ["a"]
    assert (target / "file").read_bytes() == b"whole"


def test_a_folder_that_holds_something_is_not_replaced(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"before")
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "a"):
        pass
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a" / "file").read_bytes() == b"before"
