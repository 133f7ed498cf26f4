"""A region cannot deny the sum it sent, and nobody else can make one in its name."""

from pathlib import Path

import pytest

from fedse.errors import WireError
from fedse.ledger.chain import FILE, Entry
from fedse.ledger.keys import PUBLIC, read_public
from fedse.ledger.signed_sum import SumAsked, require_signed_sum, sign_sum
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import Ledger
from tests.needs import needs

needs("cryptography")

ASKED = SumAsked(experiment="e", round=2, request="a" * 64, voters=("a", "b"), bound=0.5)
TOTAL = bytes(range(64))


def opened(home: Path) -> Ledger:
    home.mkdir(exist_ok=True)
    return Ledger(home, role="region", name="north", clock=lambda: 0.0)


def test_a_signed_sum_is_believed_and_recorded(tmp_path: Path):
    ledger = opened(tmp_path / "north")
    said = sign_sum(ledger, ASKED, TOTAL)
    require_signed_sum(said, ASKED, TOTAL, key=read_public(tmp_path / "north" / PUBLIC))
    verdict = verify_ledger(tmp_path / "north" / FILE)
    assert verdict.finding is None
    assert verdict.entries[-1] == said


QUESTIONS = {
    "fewer votes": {"voters": ("a",)},
    "another bound": {"bound": 0.6},
    "no bound": {"bound": None},
    "another round": {"round": 3},
    "another request": {"request": "b" * 64},
    "another experiment": {"experiment": "f"},
}


@pytest.mark.parametrize("change", QUESTIONS.values(), ids=QUESTIONS)
def test_a_sum_for_another_question_is_refused(tmp_path: Path, change: dict[str, object]):
    said = sign_sum(opened(tmp_path / "n"), ASKED.model_copy(update=change), TOTAL)
    with pytest.raises(WireError, match="signed another sum"):
        require_signed_sum(said, ASKED, TOTAL, key=read_public(tmp_path / "n" / PUBLIC))


def test_one_changed_bit_is_another_sum(tmp_path: Path):
    said = sign_sum(opened(tmp_path / "n"), ASKED, TOTAL)
    with pytest.raises(WireError, match="signed another sum"):
        require_signed_sum(said, ASKED, TOTAL[:-1], key=read_public(tmp_path / "n" / PUBLIC))


def test_a_line_of_another_key_or_kind_is_refused(tmp_path: Path):
    said = sign_sum(opened(tmp_path / "north"), ASKED, TOTAL)
    opened(tmp_path / "south")
    key, other = (read_public(tmp_path / name / PUBLIC) for name in ("north", "south"))
    with pytest.raises(WireError, match="not signed with its key"):
        require_signed_sum(said, ASKED, TOTAL, key=other)
    forged: list[Entry | None] = [said.model_copy(update={"signature": "00" * 64})]
    forged.append(said.model_copy(update={"facts": {**said.facts, "round": 3}}))
    for line in forged:
        with pytest.raises(WireError, match="not signed with its key"):
            require_signed_sum(line, ASKED, TOTAL, key=key)
    for missing in (None, said.model_copy(update={"kind": "answered"})):
        with pytest.raises(WireError, match="no signed line"):
            require_signed_sum(missing, ASKED, TOTAL, key=key)
