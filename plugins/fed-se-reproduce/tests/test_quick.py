"""The quick form of the cheapest table, for real: who is ahead, and that it is resumed for free."""

from pathlib import Path

import pytest

from fedse_reproduce.command import expected, make
from fedse_reproduce.results import answers, lines
from fedse_reproduce.tables import QUICK_SEEDS
from fedse_reproduce.tell import text

pytestmark = pytest.mark.long


@pytest.mark.timeout(1800)
def test_together_beats_alone_as_published(tmp_path: Path):
    result = make("one-world", range(QUICK_SEEDS), tmp_path, quick=True, jobs=2)
    by_question = {answer.question.worse: answer.found.micro for answer in answers(result)}
    assert by_question["local-evolve"].value > 0
    start = {line.arm: line for line in lines(result)}["fed-se"]
    assert start.after.value > start.before.value
    assert text(result, expected("one-world")).count("agrees") == len(result.arms)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "found").iterdir()}
    assert make("one-world", range(QUICK_SEEDS), tmp_path, quick=True, jobs=2) == result
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "found").iterdir()} == before
