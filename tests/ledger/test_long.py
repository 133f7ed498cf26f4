"""A long ledger costs its owner as much as a short one, and whatever is looked at is verified."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography")

from fedse.errors import StoreError
from fedse.ledger import chain
from fedse.ledger.chain import RECENT, examine, examine_recent
from fedse.ledger.writing import Ledger

LINES = 3 * RECENT


def opened(folder: Path) -> Ledger:
    return Ledger(folder, role="client", name="a", clock=lambda: 0.0)


def written(folder: Path, lines: int = LINES) -> Ledger:
    ledger = opened(folder)
    for number in range(1, lines):
        ledger.append("note", {"number": number})
    return ledger


@given(st.data())
def test_a_changed_byte_is_found_by_everybody_who_looks_at_its_line(draw: st.DataObject):
    with TemporaryDirectory() as name:
        ledger = written(Path(name))
        data = ledger.path.read_bytes()
        # Without its last line end a ledger is a write that was cut short, which is repaired.
        place = draw.draw(st.integers(0, len(data) - 2))
        byte = draw.draw(st.integers(0, 255).filter(lambda b: b != data[place]))
        changed = data[:place] + bytes([byte]) + data[place + 1 :]
        ledger.path.write_bytes(changed)
        line = data[:place].count(b"\n") + 1
        found = examine(changed).finding
        assert found
        assert found.line == line
        with pytest.raises(StoreError, match=f"line {line} "):
            ledger.read()
        if line == 1 or line > LINES - RECENT:
            with pytest.raises(StoreError, match=f"line {line} "):
                opened(Path(name))
        else:
            opened(Path(name)).append("note", {})
        assert ledger.path.read_bytes().startswith(changed)


def test_a_line_that_is_looked_up_is_verified(tmp_path: Path):
    ledger = written(tmp_path)
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'"number":3', b'"number":8'))
    for naming in ('"number":8}', '"number":8'):
        with pytest.raises(StoreError, match="line 4 was changed"):
            opened(tmp_path).last("note", naming=naming, where=lambda line: line.index == 3)


@pytest.mark.parametrize("kept", range(1, LINES))
def test_lines_that_were_cut_off_are_gone(tmp_path: Path, kept: int):
    ledger = written(tmp_path)
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:kept]))
    assert len(ledger.read()) == kept
    assert len(examine_recent(ledger.path.read_bytes()).entries) == min(kept, RECENT + 1)


@pytest.mark.parametrize("lines", [LINES, 5 * LINES])
def test_an_answer_verifies_as_many_lines_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
):
    written(tmp_path, lines)
    verified, signed_by = [], chain.signed_by

    def counting(key: str, message: bytes, signature: str) -> bool:
        verified.append(message)
        return signed_by(key, message, signature)

    monkeypatch.setattr(chain, "signed_by", counting)
    opened(tmp_path).append("note", {"number": lines})
    assert len(verified) == RECENT + 1


@given(st.lists(st.sampled_from(["round", "begun", "pardoned"]), max_size=LINES), st.data())
def test_the_last_line_of_a_kind_is_the_one_that_reading_all_would_find(
    kinds: list[str], draw: st.DataObject
):
    with TemporaryDirectory() as name:
        ledger = opened(Path(name))
        for number, kind in enumerate(kinds):
            ledger.append(kind, {"number": number % 3, "says": '"kind":"round"'})
        wanted = draw.draw(st.sampled_from(["round", "begun", "pardoned", "never"]))
        number = draw.draw(st.integers(0, 3))
        fitting = [line for line in ledger.read() if line.kind == wanted]
        assert ledger.last(wanted) == (fitting[-1] if fitting else None)
        numbered = [line for line in fitting if line.facts["number"] == number]
        naming = f'"number":{number}'
        assert ledger.last(wanted, naming=naming) == (numbered[-1] if numbered else None)
