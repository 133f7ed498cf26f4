"""The page on scale: what is computed follows from its laws."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "scale.md").read_text()

ADAPTER, ROUNDS = 0.084, 20
"""GB of an adapter, rounds of an experiment."""
PER_GB = 0.09
"""USD, assumed."""


def row(name: str) -> list[str]:
    """The cells of the one row that begins so."""
    (line,) = re.findall(rf"^\| {re.escape(name)} \| (.+) \|$", PAGE, flags=re.M)
    return line.split(" | ")


def test_what_is_computed_follows_from_the_laws():
    paid = [ROUNDS * PER_GB * sites * ADAPTER for sites in (5, 1000)]
    assert row("coordinator: bytes that leave") == [f"{paid[0]:.2f} USD", f"{paid[1]:.0f} USD"]
    each = f"{ROUNDS * PER_GB * ADAPTER:.2f} USD"
    assert row("each site: bytes that leave") == [each, each]
    assert row("down, up")[0] == f"{1000 * ADAPTER:.0f} GB each"
