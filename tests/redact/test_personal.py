"""Personal data that has a form; presidio is loaded without language model and network."""

import socket
from pathlib import Path

import pytest

from fedse.config.redaction import RedactSection
from fedse.redact.finding import finder_for
from fedse.redact.personal import find_emails, is_written_as_phone
from tests.needs import needs


def test_addresses_of_internal_networks_are_found():
    text = "mail ann.lee@corp.local or bo@example.org; see owner/name@revision"
    assert [text[s.start : s.end] for s in find_emails(text)] == [
        "ann.lee@corp.local",
        "bo@example.org",
    ]


def test_a_number_is_a_telephone_number_by_how_it_is_written():
    written = ["+49 30 901820", "0049 30 901820", "(415) 555-2671", "415 555 2671"]
    assert all(map(is_written_as_phone, written))
    assert not any(map(is_written_as_phone, ["226023031", "2512.08870", "(0.95-1.18", "17-18"]))


@pytest.mark.slow
def test_no_personal_data_of_a_sample_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("presidio_analyzer", "stdnum")
    from tests.redact.corpora.personal_corpus import NAMES, personal
    from tests.redact.corpora.secret_corpus import is_found

    def refuse(*_: object) -> None:
        raise AssertionError("presidio must not connect")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    find = finder_for(RedactSection(personal=True, words=("names.txt",)), tmp_path)
    assert [one.text for one in personal(3, 10) if not is_found(one, find)] == []
    assert not find("You see a red door and a blue key. Order 226023031 has 3 parts.")
