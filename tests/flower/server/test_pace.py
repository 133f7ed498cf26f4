"""The time a round waits follows the median site, and never gets stuck at too short a time."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.aggregation import AggregateSection
from fedse.flower.server.pace import LEAST_SECONDS, PACED, Pace
from fedse.protocol import KINDS

LIMIT = 3600.0


def pace(factor: float = 2.0) -> Pace:
    return Pace(AggregateSection(pace=factor, deadline=LIMIT))


def noted(times: list[float], factor: float = 2.0) -> float:
    """The time of the round after one in which sites took so long; inf = no answer."""
    one, names = pace(factor), [f"site-{i}" for i in range(len(times))]
    took = {name: time for name, time in zip(names, times, strict=True) if time < inf}
    one.note("train", names, took)
    return one.deadline("train")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([600.0], 1200.0),
        ([500.0, 600.0, 700.0], 1200.0),
        ([500.0, 600.0, inf], 1200.0),
        ([500.0, inf, inf], LIMIT),
        ([500.0, inf], LIMIT),
        ([1900.0, 1900.0], LIMIT),
        ([1.0, 1.0], LEAST_SECONDS),
        ([], LIMIT),
    ],
)
def test_a_round_waits_twice_as_long_as_the_median_site_took(times, expected):
    assert noted(times) == expected


def test_who_did_not_answer_is_slower_than_anybody_who_did():
    """So nine sites of ten that take ten minutes and one that takes a hundred: twenty minutes."""
    assert noted([600.0] * 9 + [inf]) == 1200.0


TIMES = st.lists(st.floats(0.1, 1e5) | st.just(inf), max_size=20)


@given(TIMES, st.sampled_from([0.0, 1.0, 2.0, 3.5]))
def test_the_deadline_is_the_limit_and_holds_alone_if_half_were_too_slow(times, factor):
    waits = noted(times, factor)
    assert waits <= LIMIT
    assert factor or waits == LIMIT
    if 2 * sum(time == inf for time in times) >= len(times):
        assert waits == LIMIT


@given(TIMES, st.integers(0, 19), st.floats(1, 10))
def test_a_slower_site_never_makes_the_time_shorter(times, place, slower):
    if place < len(times):
        slow = [t * slower if i == place else t for i, t in enumerate(times)]
        assert noted(slow) >= noted(times)


def test_kinds_are_measured_apart_and_the_last_measurement_is_by_the_limit():
    one = pace()
    one.note("train", ["a"], {"a": 600.0})
    one.note("validate", ["a"], {"a": 60.0})
    one.note("evaluate", ["a"], {"a": 60.0})
    waits = {kind: one.deadline(kind) for kind in KINDS}
    assert waits == {k: {"train": 1200.0, "validate": 120.0}.get(k, LIMIT) for k in KINDS}
    assert {k for k, seconds in waits.items() if seconds < LIMIT} == PACED
