"""The results page says what the result files say, nothing else."""

from pathlib import Path

from fedse.reproduce.pinned import TABLES
from fedse.reproduce.tables import arms_of
from scripts.make_results_page import page, read

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_from_the_result_files():
    reading = (DOCS / "results" / "reading.txt").read_text()
    assert (DOCS / "results.md").read_text() == page(read(), reading)


def test_every_table_is_there_with_all_its_arms_and_seeds():
    results = read()
    assert list(results) == list(TABLES)
    for name, result in results.items():
        assert list(result.arms) == [arm.label for arm in arms_of(TABLES[name], quick=False)]
        assert {len(seeds) for seeds in result.arms.values()} == {TABLES[name].seeds}
