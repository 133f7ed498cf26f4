"""The results page says what the result files say, nothing else."""

from pathlib import Path

from fedse.reproduce.pinned import TABLES
from fedse.reproduce.tables import arms_of
from scripts.make_results_page import page, read

DOCS = Path(__file__).parents[2] / "docs"
AWAITED = ("levels", "one-world", "newcomer", "attack", "merge", "learn")
"""Tables whose runs are still to be made; each leaves this list with its result file."""


def test_the_page_is_made_from_the_result_files():
    reading = (DOCS / "results" / "reading.txt").read_text()
    assert (DOCS / "results.md").read_text() == page(read(), reading)


def test_a_published_table_has_all_its_arms_and_seeds_and_the_page_names_the_others():
    results, text = read(), (DOCS / "results.md").read_text()
    assert list(results) == [name for name in TABLES if name not in AWAITED]
    for name in AWAITED:
        assert f"- `fedse reproduce {name}`: {TABLES[name].title}" in text
    for name, result in results.items():
        assert list(result.arms) == [arm.label for arm in arms_of(TABLES[name], quick=False)]
        assert {len(seeds) for seeds in result.arms.values()} == {TABLES[name].seeds}
