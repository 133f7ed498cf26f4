"""What the SuperLink refused reaches the server's app, each line once and never half."""

from pathlib import Path

from fedse.flower.messages.offences import OffenceReader, note_offence


def test_each_offence_is_read_once(tmp_path: Path):
    file = tmp_path / "offences.jsonl"
    reader = OffenceReader(file)
    assert reader.new() == {}
    note_offence(file, "1", "too large")
    note_offence(file, "2", "too many")
    assert reader.new() == {"1": "too large", "2": "too many"}
    assert reader.new() == {}
    note_offence(file, "3", "too large")
    assert reader.new() == {"3": "too large"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path):
    file = tmp_path / "offences.jsonl"
    note_offence(file, "1", "too large")
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:9])
    reader = OffenceReader(file)
    assert reader.new() == {"1": "too large"}
    file.write_bytes(whole + whole)
    assert reader.new() == {"1": "too large"}
