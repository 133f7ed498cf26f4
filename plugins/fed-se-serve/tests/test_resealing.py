"""A site that is encrypted, or gets another key, can read its service's records as before."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr", "cryptography", "aiohttp", "transformers", "stdnum")

from scene_site import bytes_of, learned_site, records_of

from fedse.cli.app import start
from fedse.store.buffer_key import coming, rotate_key
from fedse.store.lock import locked
from fedse_serve import stored
from fedse_serve.resealing import HIDDEN, KEYS, sealed_files
from fedse_serve.schema import SCHEMA


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return learned_site(tmp_path)


def encrypt(home: Path, *words: str) -> int:
    return start(["privacy", "encrypt", *words, "--home", str(home)])


def told(home: Path) -> list[Any]:
    """All that is on record, and what was harvested."""
    with closing(records_of(home)) as records:
        rows = records.db.execute("SELECT night, number, session, task FROM harvest").fetchall()
        taken = [(n, i, records.seal.show(session), task) for n, i, session, task in rows]
        found = sorted(stored.conversations(records), key=lambda one: one.session.session)
        return [found, sorted(taken)]


def test_records_are_encrypted_and_get_every_new_key_with_the_buffer(
    home: Path, tmp_path: Path
) -> None:
    before, key = told(home), tmp_path / "site.key"
    assert b"planted learned" in bytes_of(home)
    assert encrypt(home, "--key", str(key)) == 0
    assert b"planted" not in bytes_of(home)
    assert b"learned Ann" not in bytes_of(home)
    assert told(home) == before
    first = key.read_text()
    for _ in range(2):
        assert encrypt(home, "--rotate") == 0
        assert told(home) == before
    assert key.read_text() != first
    assert start(["serve", "status", str(home)]) == 0
    assert encrypt(home) == 0
    assert told(home) == before


def test_a_replacement_that_was_cut_short_is_ended_by_the_same_command(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, key = told(home), tmp_path / "site.key"
    assert encrypt(home, "--key", str(key)) == 0
    with monkeypatch.context() as broken:
        broken.setattr("fedse.store.buffer_key.reseal", _killed)
        with pytest.raises(KeyboardInterrupt):
            rotate_key(home / "buffer.db", key, beside=sealed_files(home))
    assert coming(key).exists()
    capsys.readouterr()
    assert start(["serve", "status", str(home)]) == 7
    assert f"fedse privacy encrypt --rotate --home {home}" in capsys.readouterr().err
    assert encrypt(home, "--rotate") == 0
    assert told(home) == before


def _killed(*given: Any) -> int:
    raise KeyboardInterrupt


def test_records_under_a_key_that_is_gone_stop_the_command_before_anything_changes(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "site.key"
    assert encrypt(home, "--key", str(key)) == 0
    first = key.read_text()
    with closing(records_of(home)) as records:
        records.db.execute("UPDATE sealed SET key_id = 'another'")
    assert encrypt(home, "--rotate") == 7
    assert "service.db is encrypted with key another" in capsys.readouterr().err
    assert key.read_text() == first


def test_while_the_agent_is_in_service_its_key_stays(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(home / "service", busy="", hint=""):
        assert encrypt(home, "--key", str(tmp_path / "site.key")) == 7
    assert "in service" in capsys.readouterr().err


def test_every_column_with_a_session_or_a_body_is_listed() -> None:
    tables = {part.split()[0]: part for part in SCHEMA.split("CREATE TABLE ")[1:]}
    assert {name for name, part in tables.items() if "\n  body " in part} == KEYS.keys()
    assert {name for name, part in tables.items() if "\n  session " in part} == HIDDEN.keys()
