"""Laws of the ledger file: nothing in it can be changed unnoticed, no complete line is lost."""

import os
import stat
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography")

from fedse.errors import MachineError, StoreError
from fedse.ledger import keys
from fedse.ledger.chain import FILE, Finding, examine, seal
from fedse.ledger.keys import PRIVATE, PUBLIC, Signer, new_signer, read_public
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import Ledger


def ticking() -> Callable[[], float]:
    ticks = count(1)
    return lambda: float(next(ticks))


def written(folder: Path, *, lines: int = 4) -> Path:
    """A client's ledger of `lines` lines of a kind this version gives no meaning to."""
    ledger = Ledger(folder, role="client", name="a", clock=ticking())
    for number in range(1, lines):
        ledger.append("note", {"number": number, "share": number / 7, "who": ["a", "é"]})
    return ledger.path


def sample(*, signed: bool) -> tuple[bytes, bytes]:
    """A ledger and its private key, empty if it has none."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        if not signed:
            patch.setattr(keys, "signing_works", lambda: False)
        data = written(folder).read_bytes()
        return data, (folder / PRIVATE).read_bytes() if signed else b""


(SIGNED, SIGNED_KEY), (UNSIGNED, _) = sample(signed=True), sample(signed=False)
SAMPLES = st.sampled_from([SIGNED, UNSIGNED])


def first_fault(data: bytes) -> int | None:
    """The number of the first line that is not as written; half a line counts."""
    entries, torn, finding = examine(data)
    return finding.line if finding else len(entries) + 1 if torn else None


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


@pytest.mark.parametrize("data", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
def test_a_ledger_as_written_is_sound(data: bytes):
    assert first_fault(data) is None
    assert len(examine(data).entries) == 4


@given(SAMPLES, st.data())
def test_any_changed_byte_is_found_in_its_line(data: bytes, draw: st.DataObject):
    place = draw.draw(st.integers(0, len(data) - 1))
    byte = draw.draw(st.integers(0, 255).filter(lambda b: b != data[place]))
    changed = data[:place] + bytes([byte]) + data[place + 1 :]
    assert first_fault(changed) == data[:place].count(b"\n") + 1


@given(SAMPLES, st.permutations(range(4)), st.integers(1, 4))
def test_moved_and_removed_lines_are_found(data: bytes, order: list[int], kept: int):
    """Whatever is not a beginning of the ledger is found where it first departs from it."""
    lines = lines_of(data)
    chosen = order[:kept]
    departs = next((i for i, line in enumerate(chosen) if line != i), None)
    found = first_fault(b"".join(lines[i] for i in chosen))
    assert found == (None if departs is None else departs + 1)


@given(SAMPLES, st.integers(0, 4), st.integers(0, 3))
def test_an_inserted_line_is_found(data: bytes, place: int, copied: int):
    lines = lines_of(data)
    inserted = [*lines[:place], lines[copied], *lines[place:]]
    # A copy put beside its original is the second of the two.
    assert first_fault(b"".join(inserted)) == (place + 1 if copied != place else place + 2)


def test_a_line_of_another_key_is_found(tmp_path: Path):
    entries = examine(SIGNED).entries
    stranger = new_signer(tmp_path)
    forged = seal(entries[-1], "note", {}, time=9.0, signer=stranger)
    unsigned = seal(entries[-1], "note", {}, time=9.0, signer=None)
    for entry, reason in ((forged, "is not signed with"), (unsigned, "is not signed")):
        line = entry.text + b"\n"
        finding = examine(SIGNED + line).finding
        assert finding is not None
        assert finding.line == 5
        assert finding.reason.startswith(reason)


def test_a_line_its_owner_replaced_or_numbered_otherwise_is_found(tmp_path: Path):
    """Not even who holds the key can change one line alone."""
    path = written(tmp_path)
    pen, (first, second, third, _) = new_signer(tmp_path), examine(path.read_bytes()).entries
    other = seal(first, "note", {"number": 9}, time=2.0, signer=pen)
    lines = [entry.text + b"\n" for entry in (first, other, third)]
    follows = "does not follow the line before it: one of them was replaced"
    assert examine(b"".join(lines)).finding == Finding(3, follows)
    ahead = seal(second.model_copy(update={"index": 6}), "note", {}, time=3.0, signer=pen)
    finding = examine(b"".join([*lines_of(path.read_bytes())[:2], ahead.text + b"\n"])).finding
    assert finding is not None
    assert (finding.line, finding.reason[:23]) == (3, "has index 7, expected 2")


def test_a_signature_has_one_spelling():
    entry = examine(SIGNED).entries[0]
    upper = entry.model_copy(update={"signature": entry.signature.upper()})
    spaced = entry.model_copy(update={"signature": f" {entry.signature}"})
    assert upper != entry
    for other in (upper, spaced):
        assert first_fault(other.text + b"\n") == 1


@given(SAMPLES, st.data())
def test_a_write_that_was_cut_short_is_mended(data: bytes, draw: st.DataObject):
    """Every line whose content was on disk stays; what was begun of the next is gone."""
    cut = draw.draw(st.integers(0, len(data)))
    whole = [line for line in lines_of(data[:cut] + b"\n") if line in lines_of(data)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        if data == SIGNED:
            (folder / PRIVATE).write_bytes(SIGNED_KEY)
        (folder / FILE).write_bytes(data[:cut])
        ledger = Ledger(folder, role="client", name="a", clock=ticking())
        assert (folder / FILE).read_bytes().startswith(b"".join(whole))
        assert len(ledger.read()) == max(1, len(whole))
        ledger.append("note", {})
        assert first_fault((folder / FILE).read_bytes()) is None


def rewritten(path: Path, pen: Signer | None) -> None:
    """The same story from the first line on, as whoever holds `pen` would tell it."""
    last, lines = None, []
    for entry in examine(path.read_bytes()).entries:
        facts = dict(entry.facts)
        if last is None:
            facts["key"] = pen.public if pen else None
        last = seal(last, entry.kind, facts, time=entry.time, signer=pen)
        lines.append(last.text + b"\n")
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("signed", [True, False])
def test_a_ledger_written_anew_is_found_by_the_key(tmp_path: Path, signed: bool):
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    path = written(own)
    mine = read_public(own / PUBLIC)
    rewritten(path, new_signer(other) if signed else None)
    found = [verify_ledger(path).finding, verify_ledger(path, trusted=mine).finding]
    (own / PUBLIC).unlink()
    found.append(verify_ledger(path, trusted=mine).finding)
    for finding in found:
        assert finding is not None
        assert finding.line == 1
        assert f"is {mine[:12]}: it was rewritten" in finding.reason
    # Alone, without a key that is trusted, it is a sound ledger of somebody else.
    assert verify_ledger(path).finding is None


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path):
    path = written(tmp_path)
    before = (tmp_path / PRIVATE).read_bytes()
    Ledger(tmp_path, role="client", name="a", clock=ticking()).append("note", {})
    assert (tmp_path / PRIVATE).read_bytes() == before
    assert stat.S_IMODE((tmp_path / PRIVATE).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    verdict = verify_ledger(path, trusted=read_public(tmp_path / PUBLIC))
    assert verdict.finding is None
    assert len(verdict.entries) == 5


def test_without_cryptography_a_ledger_is_chained_and_says_it_is_unsigned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    verdict = verify_ledger(written(tmp_path))
    assert verdict.finding is None
    assert verdict.began["key"] is None
    assert {entry.signature for entry in verdict.entries} == {None}
    assert not (tmp_path / PRIVATE).exists()
    # It stays what it is when the package comes later.
    monkeypatch.undo()
    Ledger(tmp_path, role="client", name="a", clock=ticking()).append("note", {})
    assert verify_ledger(tmp_path / FILE).finding is None


def test_a_signed_ledger_is_not_continued_without_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written(tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MachineError, match="needs cryptography") as lacking:
        written(tmp_path)
    assert "pip install" in lacking.value.hint
    monkeypatch.undo()
    (tmp_path / PRIVATE).unlink()
    with pytest.raises(StoreError, match=r"ledger\.key is missing"):
        written(tmp_path)
    new_signer(tmp_path)
    with pytest.raises(StoreError, match=r"is signed with key \w{12}, ledger\.key is"):
        written(tmp_path)


def test_a_changed_ledger_is_not_continued(tmp_path: Path):
    path = written(tmp_path)
    before = path.read_bytes().replace(b'"number":1', b'"number":8')
    path.write_bytes(before)
    with pytest.raises(StoreError, match="line 2 was changed"):
        written(tmp_path)
    assert path.read_bytes() == before


def test_a_line_is_on_disk_before_anybody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = Ledger(tmp_path, role="server", name="x", clock=lambda: 0.0)
    fsync, synced = os.fsync, list[bytes]()

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    for number in range(3):
        told = ledger.append("round", {"round": number})
        assert synced[-1] == (tmp_path / FILE).read_bytes()
        assert synced[-1].endswith(told.text + b"\n")
    assert len(synced) == 3


def test_two_processes_of_one_owner_keep_one_chain(tmp_path: Path):
    both = [Ledger(tmp_path, role="client", name="a", clock=ticking()) for _ in range(2)]
    for number in range(6):
        both[number % 2].append("note", {"number": number})
    entries = examine((tmp_path / FILE).read_bytes()).entries
    assert [entry.facts.get("number") for entry in entries] == [None, *range(6)]
    assert verify_ledger(tmp_path / FILE).finding is None


def test_an_empty_and_a_torn_ledger_are_found(tmp_path: Path):
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"fa')
    finding = verify_ledger(path).finding
    assert finding is not None
    assert finding.line == 5
    assert finding.reason.startswith("is not whole")
    path.write_bytes(b"")
    assert verify_ledger(path).finding == Finding(1, "is missing: the ledger is empty")


NASTY = [
    b"",
    b"{}",
    b"[" * 100_000,
    b'"\xff"',
    b"\x00" * 50,
    SIGNED.splitlines()[0].replace(b'"time":1.0', b'"time":NaN'),
    SIGNED.splitlines()[0].replace(b'"time":1.0', b'"time":1'),
    SIGNED.splitlines()[0].replace(b'"index":0', b'"index":false'),
]


@pytest.mark.parametrize("line", NASTY, ids=range(len(NASTY)))
def test_what_is_no_line_is_named_and_breaks_nothing(line: bytes):
    assert examine(line + b"\n").finding == Finding(1, "is not a ledger line as written")
