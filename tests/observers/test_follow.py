"""What is added to a log is read once, in whole lines, and so is a log that begins anew."""

from pathlib import Path

import pytest

from fedse.observers.follow import NewLines, followed


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_only_what_is_added_is_read_and_only_once(tmp_path: Path):
    log = tmp_path / "log"
    add(log, "before\n")
    lines = NewLines(log)
    assert lines.read() == []
    add(log, "one\ntwo\n")
    assert lines.read() == [b"one", b"two"]
    assert lines.read() == []


def test_a_line_is_read_when_it_has_its_end(tmp_path: Path):
    lines = NewLines(tmp_path / "log")
    assert lines.read() == [], "it is not there yet"
    add(tmp_path / "log", "one\nha")
    assert lines.read() == [b"one"]
    add(tmp_path / "log", "lf\n")
    assert lines.read() == [b"half"]


def test_a_log_that_begins_anew_is_read_from_its_start(tmp_path: Path):
    log = tmp_path / "log"
    add(log, "long before\n")
    lines = NewLines(log)
    log.write_text("new\n")
    assert lines.read() == [b"new"]
    log.unlink()
    assert lines.read() == []
    add(log, "again\n")
    assert lines.read() == [b"again"]


def test_events_are_shown_up_to_the_last_and_other_lines_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fedse.observers.follow.PERIOD", 60.0)
    log, shown = tmp_path / "log", list[str]()
    add(log, '{"event": "before"}\n')
    with followed(log, lambda event, facts: shown.append(event)):
        add(log, '{"event": "one"}\n{"ev{"event": "two"}\n[]\n{}\n{"event": "three"}\n{"event"')
    assert shown == ["one", "three"]
