"""What is published about redaction and success."""

import json

from fedse.stats.rates import Rate
from research.compare_redaction import compared
from research.protection_section import RESULTS


def test_a_difference_lies_in_its_interval_and_is_negative_for_a_loss():
    made = compared({"as it was": [Rate(8, 10)] * 2, "marks": [Rate(2, 10)] * 2})
    low, high = made["marks"]["difference interval"]
    assert low < made["marks"]["difference"] == -0.6 < high < 0


def test_the_published_figures_are_those_of_the_counts():
    found = json.loads((RESULTS / "redaction-training.json").read_text())
    arms = {
        name: [Rate(round(rate * found["games"]), found["games"]) for rate in arm["by seed"]]
        for name, arm in found["arms"].items()
    }
    assert compared(arms) == found["arms"]
