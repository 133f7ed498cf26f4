"""An encrypted buffer tells the same to its owner and nothing to a reader of the disk."""

import os
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.config.storage import StorageSection
from fedse.errors import StoreError
from fedse.store import buffer_key
from fedse.store.buffer_key import (
    coming,
    encrypt_buffer,
    make_key,
    read_key,
    rotate_key,
    seal_beside,
    seal_for,
)
from fedse.store.buffer_schema import SCHEMA_VERSION, open_file
from fedse.store.database import DamageNamingCursor
from fedse.store.exported import ExportedFile
from fedse.store.sealing import UNSEALED, BrokenSeal, KeyedSeal
from tests.needs import needs
from tests.store.older import as_schema, made_older
from tests.store.subjects import KEY, PERSONS, SEALS, bytes_of, content_of, fill, opened, told
from tests.store.test_erasure import forget

needs("cryptography")

NUMBERS = range(5)
SEAL, SAME, OTHER = KeyedSeal(KEY), KeyedSeal(KEY), KeyedSeal(bytes(32))
SECRETS = [*PERSONS, *(told(number)[:30] for number in NUMBERS)]


@settings(max_examples=50, deadline=None)
@given(
    text=st.text() | st.binary(min_size=32, max_size=32).map(bytes.hex),
    row=st.tuples(st.sampled_from(["played", "part"]), st.integers()),
)
def test_a_text_opens_in_its_own_row_with_its_own_key_only(text: str, row: tuple[str, int]):
    seal, other = SEAL, OTHER
    closed = seal.close(text, row)
    assert seal.open(closed, row) == text
    assert seal.close(text, row) != closed
    assert seal.show(seal.hide(text)) == text
    assert seal.hide(text) == SAME.hide(text)
    with pytest.raises(BrokenSeal):
        seal.open(closed, (row[0], row[1] + 1))
    with pytest.raises(BrokenSeal):
        other.open(closed, row)
    with pytest.raises(BrokenSeal):
        other.show(seal.hide(text))
    with pytest.raises(BrokenSeal):
        seal.open(bytes(closed[:-1]) + bytes([closed[-1] ^ 1]), row)


def test_an_encrypted_buffer_gives_the_same_bit_for_bit(tmp_path: Path):
    told_by = {}
    for kind, make in SEALS.items():
        path = tmp_path / f"{kind}.db"
        with closing(opened(path, make())) as buffer:
            fill(buffer, NUMBERS, round=1)
            fill(buffer, [*NUMBERS, 9], round=2)
            told_by[kind] = content_of(buffer)
        held = bytes_of(path)
        hidden = [secret for secret in SECRETS if secret.encode() not in held]
        assert hidden == (SECRETS if kind == "sealed" else [])
    assert told_by["plain"] == told_by["sealed"]


def test_two_texts_that_change_places_are_damage(tmp_path: Path):
    path = tmp_path / "b.db"
    with closing(opened(path, KeyedSeal(KEY))) as buffer:
        fill(buffer, NUMBERS)
    with closing(sqlite3.connect(path)) as db, db:
        (one, two) = db.execute("SELECT body FROM trajectory WHERE id < 3").fetchall()
        db.execute("UPDATE trajectory SET body = ? WHERE id = 1", two)
        db.execute("UPDATE trajectory SET body = ? WHERE id = 2", one)
    with closing(opened(path, KeyedSeal(KEY))) as buffer:
        with pytest.raises(StoreError, match="damaged") as error:
            buffer.lessons("e", 9)[0]
        assert "sqlite3 " in error.value.hint
        assert buffer.lessons("e", 9)[2].task.id == "2"


def with_everything(path: Path) -> Path:
    with closing(opened(path)) as buffer:
        fill(buffer, NUMBERS, round=1)
        buffer.record_played([], experiment="e", bodies=False)
        buffer.exports.note(ExportedFile(path="out", made=1.0, episodes=1), {("desk", "1")})
        forget(buffer)
    return path


def test_an_old_buffer_is_encrypted_in_place_and_again_with_a_new_key(tmp_path: Path):
    path, key = with_everything(tmp_path / "b.db"), tmp_path / "keys" / "buffer.key"
    with closing(opened(path)) as buffer:
        before = content_of(buffer)
    assert PERSONS[1].encode() in bytes_of(path)
    assert encrypt_buffer(path, key) > 0
    assert encrypt_buffer(path, key) == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    first = key.read_text()
    for _ in range(2):
        held = bytes_of(path)
        assert not any(secret.encode() in held for secret in SECRETS)
        with closing(opened(path, read_key(key))) as buffer:
            assert content_of(buffer) == before
            assert buffer.erasures.is_forgotten(PERSONS[0])
            assert [one.path for one in buffer.exports.about({("desk", "1")})] == ["out"]
            assert len(buffer.erasures.find(PERSONS[1]).lessons) == 2
        rotate_key(path, key)
    assert key.read_text() != first
    assert not coming(key).exists()


def test_bytes_that_a_reader_keeps_in_the_log_are_told_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def impatient(file: Path):
        db = open_file(file)
        db.execute("PRAGMA busy_timeout = 10")
        return db

    path, key = with_everything(tmp_path / "b.db"), tmp_path / "buffer.key"
    monkeypatch.setattr(buffer_key, "open_file", impatient)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trajectory").fetchone()
        for _ in range(2):
            with pytest.raises(StoreError, match="being read"):
                encrypt_buffer(path, key)
        assert PERSONS[1].encode() in bytes_of(path)
    assert encrypt_buffer(path, key) == 0
    assert PERSONS[1].encode() not in bytes_of(path)


def test_the_right_key_or_a_reason(tmp_path: Path):
    path, key, other = with_everything(tmp_path / "b.db"), tmp_path / "k", tmp_path / "other"
    make_key(other)
    with pytest.raises(StoreError, match="not encrypted yet") as error:
        opened(path, read_key(other))
    assert "fedse privacy encrypt" in error.value.hint
    encrypt_buffer(path, key)
    with pytest.raises(StoreError, match="no key is named"):
        opened(path)
    with pytest.raises(StoreError, match="the key given is"):
        opened(path, read_key(other))
    with pytest.raises(StoreError, match="the key given is"):
        encrypt_buffer(path, other)
    with pytest.raises(StoreError, match="no key file"):
        read_key(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="must not be overwritten"):
        make_key(key)
    key.chmod(0o640)
    with pytest.raises(StoreError, match="can be read by others"):
        read_key(key)
    other.write_text("not hexadecimal")
    with pytest.raises(StoreError, match="64 hexadecimal digits"):
        read_key(other)


def test_where_the_key_is(tmp_path: Path):
    named = make_key(tmp_path / "k").key_id
    digits = (tmp_path / "k").read_text()

    def found(key: str, **environ: str) -> str:
        return seal_for(tmp_path, StorageSection(key=key), environ).key_id

    assert found("") == UNSEALED.key_id
    assert found("k") == found(str(tmp_path / "k")) == found("env:K", K=digits) == named
    with pytest.raises(StoreError, match="which is not set"):
        found("env:K")
    (tmp_path / "site.toml").write_text('federation = "f"\n[storage]\nkey = "k"\n')
    assert seal_beside(tmp_path / "buffer.db").key_id == named
    run = tmp_path / "run"
    (run / "clients" / "a").mkdir(parents=True)
    assert seal_beside(run / "clients" / "a" / "buffer.db") == UNSEALED
    (run / "config.resolved.toml").write_text(f'[storage]\nkey = "{tmp_path / "k"}"\n')
    assert seal_beside(run / "clients" / "a" / "buffer.db").key_id == named


def killed_before(statements: int, work) -> bool:
    child = os.fork()
    if child == 0:
        left, plain = [statements], DamageNamingCursor.execute

        def counted(self, *given):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(self, *given)

        DamageNamingCursor.execute = counted
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.parametrize("rotated", [False, True])
def test_a_kill_at_any_statement_leaves_one_key_that_opens_all(tmp_path: Path, rotated: bool):
    statements, ended = 0, False
    while not ended:
        home = tmp_path / str(statements)
        home.mkdir()
        path, key = with_everything(home / "buffer.db"), home / "k"
        with closing(opened(path)) as buffer:
            before = content_of(buffer)
        if rotated:
            encrypt_buffer(path, key)
        work = rotate_key if rotated else encrypt_buffer
        ended = not killed_before(statements, lambda path=path, key=key, work=work: work(path, key))
        if not rotated:
            encrypt_buffer(path, key)
        seal = seal_for(home, StorageSection(key="k"), {})
        with closing(opened(path, seal)) as buffer:
            assert content_of(buffer) == before
        held = bytes_of(path)
        assert not any(secret.encode() in held for secret in SECRETS)
        statements += 7


def schema_of(path: Path) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return set(db.execute("SELECT type, name, tbl_name FROM sqlite_master"))


def test_a_file_of_the_schema_before_opens_and_loses_nothing(tmp_path: Path):
    with closing(opened(tmp_path / "new.db")) as buffer:
        fill(buffer, NUMBERS, round=1)
        fill(buffer, [2, 7], round=2)
        expected = content_of(buffer)
    old = as_schema(2, tmp_path / "new.db", tmp_path / "old.db")
    for _ in range(2):
        with closing(opened(old)) as buffer:
            assert content_of(buffer) == expected
            assert buffer._db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert len(buffer.erasures.find(PERSONS[1]).lessons) == 3
    assert schema_of(old) == schema_of(tmp_path / "new.db")


def test_an_encrypted_file_of_schema_3_opens_and_loses_nothing(tmp_path: Path):
    path, key = with_everything(tmp_path / "buffer.db"), tmp_path / "k"
    encrypt_buffer(path, key)
    seal = seal_for(tmp_path, StorageSection(key="k"), {})
    with closing(opened(path, seal)) as buffer:
        expected = content_of(buffer)
    made_older(path, 3, "steps_taken")
    with closing(opened(path, seal)) as buffer:
        assert content_of(buffer) == expected
