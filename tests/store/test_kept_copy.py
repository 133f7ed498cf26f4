"""A file that is brought up to date keeps a copy of what it was, until something must be gone."""

import os
import shutil
import signal
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.protocol import SiteReply
from fedse.store.buffer_key import encrypt_buffer
from fedse.store.buffer_schema import SCHEMA_VERSION
from fedse.store.gc import collect_outbox
from fedse.store.kept_copy import kept_copies
from fedse.store.sealing import UNSEALED, KeyedSeal, Seal
from fedse.types import ClientStats, Trajectory
from tests.needs import needs
from tests.store.older import as_schema
from tests.store.subjects import KEY, PERSONS, bytes_of, fill, opened
from tests.store.test_erasure import forget

needs("cryptography")

OLDER = range(1, SCHEMA_VERSION)
EVENTS = {"execute", "backup", "connect", "fsync", "open", "rename", "replace", "unlink", "close"}
"""Functions of C by which a file is changed; a process is killed before each call of one."""
Rows = dict[str, list[tuple[object, ...]]]


def older(folder: Path, version: int, seal: Seal = UNSEALED) -> Path:
    """A buffer of that schema with lessons, games, parts and two answers."""
    new = folder / "new.db"
    with closing(opened(new, seal)) as buffer:
        fill(buffer, range(4), round=1)
        fill(buffer, [1, 5], round=2)
        for round in (1, 2):
            reply = SiteReply(ClientStats(steps=round), bytes([round]) * 50_000)
            buffer.outbox.finish("e", round, f"{round:064d}", reply)
        fill(buffer, [2], round=3)
    path = as_schema(version, new, folder / "buffer.db")
    new.unlink()
    return path


def rows(path: Path) -> Rows:
    """Everything in a file, and its schema."""
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {t: sorted(db.execute(f"SELECT * FROM {t}"), key=repr) for t in tables}
        return {"": db.execute("PRAGMA user_version").fetchall(), **found}


def open_and_close(path: Path, seal: Seal = UNSEALED) -> None:
    opened(path, seal).close()


def killed_before(event: int, work: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        left = [event]

        def count(frame: object, kind: str, called: object) -> None:
            if kind == "c_call" and getattr(called, "__name__", "") in EVENTS:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.parametrize(
    ("version", "seal", "every"),
    [
        *(pytest.param(one, UNSEALED, 1, marks=pytest.mark.slow) for one in OLDER),
        pytest.param(4, KeyedSeal(KEY), 1, marks=pytest.mark.slow),
        (4, UNSEALED, 11),
    ],
)
def test_a_kill_at_any_event_of_a_migration_is_before_or_after(
    tmp_path: Path, version: int, seal: Seal, every: int
):
    first = older(tmp_path, version, seal)
    old = rows(first)
    done = Path(shutil.copytree(tmp_path, tmp_path / "done")) / first.name
    open_and_close(done, seal)
    new, event, ended, seen = rows(done), 0, False, set()
    while not ended:
        folder = tmp_path / str(event)
        folder.mkdir()
        path = Path(shutil.copy(first, folder))
        ended = not killed_before(event, lambda path=path: open_and_close(path, seal))
        found = rows(path)
        after = found[""] != old[""]
        assert found == old or after
        if after:
            assert {table: found[table] for table in old} == {table: new[table] for table in old}
            assert rows(path.with_name(f"buffer.db.schema-{version}")) == old
        open_and_close(path, seal)
        assert rows(path) == new
        (copy,) = kept_copies(path)
        assert rows(copy) == old
        seen.add(after)
        event += every
    assert seen == {False, True}
    assert event > 50, "the events were not counted"


@pytest.mark.parametrize("version", OLDER)
def test_the_copy_is_for_its_owner_alone_and_leads_back(tmp_path: Path, version: int):
    path = older(tmp_path, version)
    path.chmod(0o644)
    old = rows(path)
    # As after a crash, there is a log of the newer file.
    assert killed_before(10_000, lambda: open_and_close(path)) is False
    assert killed_before(0, lambda: _change_and_die(path))
    assert path.with_name("buffer.db-wal").stat().st_size
    (copy,) = kept_copies(path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    copy.replace(path)
    assert rows(path) == old


def _change_and_die(path: Path) -> None:
    sys.setprofile(None)
    buffer = opened(path)
    fill(buffer, [9], round=4)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_new_file_and_one_that_is_up_to_date_have_no_copy(tmp_path: Path):
    for _ in range(2):
        open_and_close(tmp_path / "buffer.db")
        assert [file.name for file in tmp_path.iterdir()] == ["buffer.db"]


def test_the_copy_is_on_disk_before_the_migration_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = older(tmp_path, 4)
    old, synced, plain = rows(path), [], os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        if synced[-1] == tmp_path:
            (copy,) = kept_copies(path)
            assert rows(copy) == rows(path) == old
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    open_and_close(path)
    assert synced == [tmp_path / f".buffer.db.schema-4.{os.getpid()}", tmp_path]


def test_without_room_for_the_copy_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = older(tmp_path, 4)
    old, size = rows(path), path.stat().st_size
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=4 * size - 1))
    with pytest.raises(StoreError, match=f"a copy of it, needs at least {4 * size / 1e6:.1f} MB"):
        opened(path)
    assert rows(path) == old
    assert not kept_copies(path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=4 * size))
    open_and_close(path)


def redacted(episode: Trajectory) -> Trajectory:
    turns = [turn.model_copy(update={"observation": "-"}) for turn in episode.turns]
    return episode.model_copy(update={"turns": tuple(turns)})


def _redact(path: Path) -> None:
    with closing(opened(path, redact=redacted)) as buffer:
        assert buffer.rewrite()


def _remove_old(path: Path) -> None:
    with closing(opened(path)) as buffer:
        buffer.old.remove({"e": 9})


def _forget(path: Path) -> None:
    with closing(opened(path)) as buffer:
        for person in PERSONS:
            assert forget(buffer, person)


def _encrypt(path: Path) -> None:
    encrypt_buffer(path, path.with_name("k"))


ERASING = (_redact, _remove_old, _forget, _encrypt)


@pytest.mark.parametrize("erase", ERASING)
@pytest.mark.parametrize("version", OLDER)
def test_no_copy_outlives_what_must_be_gone(
    tmp_path: Path, version: int, erase: Callable[[Path], None]
):
    path = older(tmp_path, version)
    open_and_close(path)
    left = path.with_name(".buffer.db.schema-9.77")
    left.write_bytes(kept_copies(path)[0].read_bytes())
    assert bytes_of(path).count(b"confidential") > 4
    erase(path)
    assert not left.exists()
    assert not kept_copies(path)
    held = bytes_of(path)
    parts = erase is _remove_old  # the parts of a round under way are of no age yet
    assert parts or b"confidential" not in held


def test_a_sweep_that_was_cut_short_takes_the_copy_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = older(tmp_path, 4)
    with closing(opened(path)) as buffer:
        buffer.erasures.forget(PERSONS[0], buffer.erasures.find(PERSONS[0]), made=1.0)
    assert kept_copies(path)
    open_and_close(path)
    assert not kept_copies(path)


def test_gc_tells_of_the_copy_and_removes_it(tmp_path: Path):
    path = older(tmp_path, 4)
    open_and_close(path)
    (copy,) = kept_copies(path)
    size = copy.stat().st_size
    for dry_run in (True, True, False):
        freed = collect_outbox(path, answers=0, dry_run=dry_run)
        assert [(one.path, one.bytes) for one in freed] == [(copy, size)]
    assert not kept_copies(path)
    assert not collect_outbox(path, answers=0, dry_run=False)
