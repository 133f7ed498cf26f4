"""A full disk is recognised whoever met it, told once, and nothing is left half-written."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fedse.errors import StoreError, boundary
from fedse.store import space
from fedse.store.files import append_whole, write_durably
from fedse.store.space import Need, RoomWatch, is_full, require_room, shortage
from tests.toys.small_disk import fill, free, small_disk, takes_nothing


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 1) as folder:
        yield folder


def test_a_full_disk_is_recognised_behind_our_own_errors_and_no_other_is():
    with pytest.raises(StoreError) as raised, boundary(StoreError, "write"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert is_full(raised.value)
    assert is_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not is_full(OSError(errno.EACCES, "Permission denied"))
    assert not is_full(StoreError("no such run"))
    assert not is_full(sqlite3.DatabaseError("file is not a database"))


def test_sqlite_on_a_full_disk_is_recognised_and_keeps_what_was_committed(disk: Path):
    with closing(sqlite3.connect(disk / "a.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE t (body BLOB)")
        db.execute("INSERT INTO t VALUES (zeroblob(1000))")
        fill(disk)
        with pytest.raises(sqlite3.OperationalError) as raised:
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")
        assert is_full(raised.value)
        free(disk)
        db.execute("INSERT INTO t VALUES (zeroblob(100000))")
        assert db.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_the_shortage_names_the_disk_what_is_free_and_what_is_needed(disk: Path):
    assert shortage(Need(disk, 10**6, "a round")) == ""
    assert shortage(Need(disk, 2 * 10**6, "a round")) == (
        f"the disk of {disk} is full: 1.0 MB free, a round needs at least 2.0 MB there"
    )
    fill(disk)
    assert takes_nothing(disk)
    assert "takes no more: No space left on device" in shortage(Need(disk, 0, "a round"))
    with pytest.raises(StoreError, match=r"0\.0 MB free") as refusal:
        require_room(Need(disk, 1, "an answer"))
    assert is_full(refusal.value)
    assert [file.name for file in disk.iterdir()] == [".filling"], "the probe leaves nothing"


def test_what_does_not_fit_leaves_the_file_as_it_was(disk: Path):
    log, blob = disk / "events.jsonl", disk / "blob"
    append_whole(log, b"one\n")
    write_durably(blob, b"before")
    fill(disk)
    with pytest.raises(StoreError) as raised:
        append_whole(log, b"x" * 100_000)
    assert is_full(raised.value)
    with pytest.raises(StoreError):
        write_durably(blob, b"x" * 100_000)
    assert (log.read_bytes(), blob.read_bytes()) == (b"one\n", b"before")
    free(disk)
    append_whole(log, b"two\n")
    assert log.read_bytes() == b"one\ntwo\n"


def test_it_is_told_when_it_begins_from_time_to_time_and_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    problem = ["no room"]
    monkeypatch.setattr(space, "shortage", lambda need: problem[0])
    told: list[str] = []
    watch = RoomWatch(Need(tmp_path, 1, "a round"), tell=told.append)
    assert all(watch.lacking(float(now)) for now in range(1201))
    assert len(told) == 3, "at 0, 600 and 1200 s"
    problem[0] = ""
    assert watch.lacking(1201.5), "not looked at more often than every two seconds"
    assert not watch.lacking(1203.0)
    assert told[3:] == [f"{tmp_path} has room again after 1203 s: going on"]
    assert not watch.lacking(1300.0)
    assert len(told) == 4
