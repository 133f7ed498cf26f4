"""The results page says what the result files say, nothing else."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedse.audit.scores import Estimate
from fedse.stats.rates import Z_95
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.tables import arms_of
from research import leakage_section
from research.leakage_section import over_seeds
from research.make_results_page import page, read
from research.verdicts import (
    SMALL,
    Verdict,
    as_json,
    read_measured,
    readme_table,
    verdicts,
    with_table,
)

DOCS = Path(__file__).parents[2] / "docs"
README = (DOCS.parent / "README.md").read_text()


@cache
def rows() -> list[Verdict]:
    return verdicts(read(), read_measured())


def test_the_page_is_made_from_the_result_files():
    reading = (DOCS / "results" / "reading.txt").read_text()
    assert (DOCS / "results.md").read_text() == page(read(), rows(), reading)
    assert (DOCS / "results" / "verdicts.json").read_text() == as_json(rows())


def test_the_readme_has_the_table_that_the_results_page_begins_with():
    """Made by: python -m research.make_results_page docs"""
    assert f"\n\n{readme_table(rows())}\n\n" in README
    assert with_table(README, rows()) == README
    of_one_model = {row.model for row in rows() if row.first_screen} == {SMALL}
    assert (f"Every figure here is from a model of {SMALL}" in README) == of_one_model


def test_every_table_is_published_with_all_its_arms_and_seeds():
    results = read()
    assert list(results) == list(TABLES)
    for name, result in results.items():
        assert list(result.arms) == [arm.label for arm in arms_of(TABLES[name], quick=False)]
        assert {len(seeds) for seeds in result.arms.values()} == {TABLES[name].seeds}


def cell(arm: str, seed: int, **audit: float) -> dict[str, Any]:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    figures = {"auc": around(audit["auc"]), "tpr": around(audit["tpr"])}
    weaker = {"auc": around(0.2), "tpr": around(0.11)}
    canaries = [{"place": place, "bits": around(audit[place])} for place in ("typed", "seen")]
    facts = {"attacks": [{"attack": "lira", **figures}, {"attack": "loss", **weaker}]}
    row = {"arm": arm, "seed": seed, "won": [seed, 10], "cpu_seconds": 360.0}
    return {**row, "failed_controls": [], "audit": {**facts, "canaries": canaries}}


def test_what_a_reply_gives_away_is_left_out_until_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = {"client": "textcraft", "lessons": 200, "shadows": 4, "canaries": 8, "games": 10}
    rows = [cell("actions", seed, auc=0.7, tpr=0.1, typed=4.0, seen=1.0) for seed in (1, 2)]
    before = {"arm": "before", "seed": 1, "won": [1, 10]}
    monkeypatch.setattr(leakage_section, "FOUND", tmp_path / "leakage-table.json")
    assert "What a reply gives away" not in page({}, [], "")
    found = {"settings": settings, "rows": [before, *rows]}
    leakage_section.FOUND.write_text(json.dumps(found))
    written = page({}, [], "")
    # 0.1 / sqrt(2) to either side; the share recognised is that of the attack which finds most.
    told = "0.700 (0.629-0.771) | 0.110 (0.039-0.181) | 4.0 (3.9-4.1) | 1.0 (0.9-1.1)"
    assert f"| action tokens | {told} | 0.150 (0.052-0.360) |" in written
    assert "| before training (only seed 1) |  |  |  |  | 0.100 (0.018-0.404) |" in written
    assert "With a secure sum" not in written
    assert "All controls of all 2 audits" in written
    assert "0.2 CPU-hours" in " ".join(written.split())


def test_a_figure_over_seeds_has_the_wider_interval_of_within_and_between_them():
    def around(value: float, reach: float) -> Estimate:
        return Estimate(value=value, low=value - reach, high=value + reach)

    assert over_seeds([around(0.7, 0.3)]) == around(0.7, 0.3)
    within = over_seeds([around(0.5, 0.4)] * 4)
    assert (within.low, within.high) == pytest.approx((0.3, 0.7))
    between = over_seeds([around(0.5, 0.0), around(0.7, 0.0)])
    assert between.high - between.value == pytest.approx(Z_95 * 0.1)
