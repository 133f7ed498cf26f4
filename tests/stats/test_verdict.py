"""The verdict of a comparison and what it could have missed, by numbers done by hand."""

from math import inf

import pytest

from fedse.stats.paired import Difference, blocks_by_group, discordant_share, minimum_detectable
from fedse.stats.verdict import ComparisonVerdict, p_text, smallest_detectable, verdict_of


@pytest.mark.parametrize(
    ("low", "high", "p_holm", "expected"),
    [
        (0.01, 0.2, 0.049, ComparisonVerdict.HIGHER),
        (-0.2, -0.01, 0.049, ComparisonVerdict.LOWER),
        (0.01, 0.2, 0.05, ComparisonVerdict.UNCLEAR),
        (-0.2, -0.01, 0.05, ComparisonVerdict.UNCLEAR),
        (0.0, 0.2, 0.001, ComparisonVerdict.NONE),
        (-0.2, 0.0, 0.001, ComparisonVerdict.NONE),
        (-0.1, 0.1, 1.0, ComparisonVerdict.NONE),
    ],
)
def test_the_interval_and_the_corrected_p_must_both_say_so(low, high, p_holm, expected):
    assert verdict_of(Difference((low + high) / 2, low, high, p_holm), p_holm) is expected


# The standard error is 0.1 / 1.959964 = 0.0510213; z(0.8) = 0.841621; Bonferroni for one, two and
# five comparisons: z = 1.959964, 2.241403, 2.575829.
@pytest.mark.parametrize(("comparisons", "expected"), [(1, 0.142941), (2, 0.157300), (5, 0.174362)])
def test_seeds_that_differ_hide_more_than_games_do(comparisons: int, expected: float):
    found = Difference(0.0, -0.1, 0.1, 1.0)
    facts = {"games": 1000, "rate": 0.5, "discordant": 0.1, "comparisons": comparisons}
    assert smallest_detectable(found, seeds=5, **facts) == pytest.approx(expected, abs=1e-6)
    games = minimum_detectable(1000, 0.5, alpha=0.05 / comparisons, discordant=0.1)
    assert smallest_detectable(found, seeds=1, **facts) == games < expected


def test_an_interval_narrower_than_the_luck_of_games_changes_nothing():
    found = Difference(0.0, -0.001, 0.001, 1.0)
    facts = {"games": 77, "rate": 0.5, "discordant": 0.4, "comparisons": 1}
    assert smallest_detectable(found, seeds=5, **facts) == minimum_detectable(
        77, 0.5, discordant=0.4
    )


def test_counts_alone_tell_nothing_of_seeds():
    found = Difference(0.0, -0.1, 0.1, 1.0)
    facts = {"games": 1000, "rate": 0.3, "discordant": None, "comparisons": 1}
    assert smallest_detectable(found, seeds=5, **facts) == minimum_detectable(1000, 0.3)


def test_what_no_experiment_of_this_size_finds_is_infinite():
    wide = Difference(0.0, -1.0, 1.0, 1.0)
    facts = {"games": 1000, "rate": 0.5, "discordant": 0.1, "comparisons": 1}
    assert smallest_detectable(wide, seeds=2, **facts) == inf


def test_games_are_put_together_by_group_seed_and_name():
    seeds = [
        {"maze-b": [True], "maze-a": [False, True], "wordle": [False]},
        {"wordle": [True], "maze-a": [True, True], "maze-b": [False]},
    ]
    group_of = {"maze-a": "maze", "maze-b": "maze", "wordle": "wordle", "away": "other"}
    blocks = blocks_by_group(seeds, group_of)
    assert list(blocks.items()) == [
        ("maze", [[False, True, True], [True, True, False]]),
        ("wordle", [[False], [True]]),
    ]
    other = {**blocks, "wordle": [[True], [True]]}
    assert discordant_share(blocks, other) == 1 / 8


@pytest.mark.parametrize(
    ("p", "said"),
    [(0.0, "< 0.001"), (0.00099, "< 0.001"), (0.001, "0.001"), (0.0135, "0.013"), (1.0, "1.000")],
)
def test_a_p_is_never_told_as_nothing(p: float, said: str):
    assert p_text(p) == said
