"""examples/one_page.py is the method: the product gives the same adapter, bit for bit."""

import runpy
from pathlib import Path

import pytest

from tests.needs import needs

needs("peft")

import fedse

PAGE = Path(__file__).parents[2] / "examples" / "one_page.py"


def test_it_fits_on_one_page():
    assert len(PAGE.read_text().splitlines()) <= 100


@pytest.mark.slow
def test_the_page_and_the_product_give_the_same_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = runpy.run_path(str(PAGE))
    adapter = page["main"]()
    told = capsys.readouterr().out
    result = fedse.run(page["experiment"](), out=tmp_path)
    assert adapter.digest == result.rounds[-1].after
    assert f"round 1: adapter {result.rounds[0].after[:12]}" in told
    assert "of 60 held-out games" in told
