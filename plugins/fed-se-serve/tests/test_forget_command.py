"""`fedse serve forget` of a site: the records, and what the site has learned from them."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "cryptography", "aiohttp", "transformers", "stdnum")

from scene_records import Clock
from scene_site import ANN, buffer_of, bytes_of, learned_site
from test_harvest import LATER

from fedse.cli.app import start
from fedse.ledger.chain import FILE
from fedse.ledger.writing import read_ledger
from fedse.store.lock import locked
from fedse_serve.harvest import Service


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return learned_site(tmp_path)


def test_a_person_is_gone_from_the_records_and_from_the_buffer(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert b"planted learned Ann Lee" in bytes_of(home)
    assert b"planted held Ann Lee" in bytes_of(home)
    assert start(["serve", "forget", str(home), ANN]) == 0
    told = capsys.readouterr().out
    assert "2 sessions, 2 turns, 2 reports, and of the buffer 1 lessons, 2 games" in told
    assert "ledger   line of kind forgotten" in told
    assert "FILE" not in told
    assert b"Ann Lee" not in bytes_of(home)
    assert b"planted learned Bo" in bytes_of(home)
    assert b"planted held Bo" in bytes_of(home)
    assert b'"forgotten"' in read_ledger(home / FILE)
    assert start(["serve", "forget", str(home), ANN]) == 0
    assert "of the buffer 0 lessons, 0 games" in capsys.readouterr().out
    service = Service(folder=str(home / "service"), clock=Clock(LATER))
    with closing(buffer_of(home, service)) as buffer:
        assert len(buffer) == 1


def test_while_the_site_runs_nothing_is_forgotten(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(home, busy="", hint=""):
        assert start(["serve", "forget", str(home), ANN]) == 7
    told = capsys.readouterr().err
    assert f"a site is running from {home}" in told
    assert re.search(r"hint: stop it .*: fedse serve forget .* PERSON", told)
    assert b"planted learned Ann Lee" in bytes_of(home)
    assert start(["serve", "forget", str(home), ANN]) == 0
    assert "2 sessions" in capsys.readouterr().out
