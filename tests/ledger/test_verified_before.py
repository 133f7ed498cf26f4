"""A process does not verify the same bytes twice, and notices every other byte as if it did."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography")

from fedse.errors import StoreError
from fedse.ledger import chain
from fedse.ledger.chain import Ledger, examine

LINES = 6


def opened(folder: Path) -> Ledger:
    return Ledger(folder, role="client", name="a", clock=lambda: 0.0)


def written(folder: Path) -> Ledger:
    """A ledger that this process has just verified to its end."""
    ledger = opened(folder)
    for number in range(1, LINES):
        ledger.append("note", {"number": number})
    assert len(ledger.read()) == LINES
    return ledger


@given(st.data())
def test_a_byte_that_changed_since_is_found_in_its_line(draw: st.DataObject):
    with TemporaryDirectory() as name:
        ledger = written(Path(name))
        data = ledger.path.read_bytes()
        # Without its last line end a ledger is a write that was cut short, which is mended.
        place = draw.draw(st.integers(0, len(data) - 2))
        byte = draw.draw(st.integers(0, 255).filter(lambda b: b != data[place]))
        changed = data[:place] + bytes([byte]) + data[place + 1 :]
        ledger.path.write_bytes(changed)
        found = examine(changed).finding
        assert found
        for read in (ledger.read, lambda: opened(Path(name))):
            with pytest.raises(StoreError, match=f"line {found.line} "):
                read()
        assert ledger.path.read_bytes() == changed


@pytest.mark.parametrize("kept", range(1, LINES))
def test_lines_that_were_cut_off_since_are_gone(tmp_path: Path, kept: int):
    ledger = written(tmp_path)
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:kept]))
    assert len(ledger.read()) == kept


def test_each_line_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    examined: list[int] = []

    def counting(*given: object) -> bool:
        examined.append(1)
        return True

    monkeypatch.setattr(chain, "signed_by", counting)
    for number in range(1, LINES):
        opened(tmp_path).append("note", {"number": number})
    assert len(opened(tmp_path).read()) == LINES
    assert len(examined) == LINES


def test_only_so_many_ledgers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chain, "_VERIFIED", {})
    for number in range(chain.KEPT_LEDGERS + 3):
        (tmp_path / str(number)).mkdir()
        opened(tmp_path / str(number)).read()
    kept = [path.parent.name for path in chain._VERIFIED]
    assert kept == [str(number) for number in range(3, chain.KEPT_LEDGERS + 3)]
