"""The learning rate as a function of round and step alone."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.course import LEVEL, Arc

steps = st.integers(1, 400)


@given(of=steps)
def test_a_whole_arc_has_the_bits_of_the_published_cosine(of: int):
    published = [0.5 * (1 + math.cos(math.pi * step / of)) for step in range(of)]
    assert [Arc().rate(step, of=of) for step in range(of)] == published


@given(of=steps)
def test_a_level_stays_at_the_peak(of: int):
    assert {LEVEL.rate(step, of=of) for step in range(of)} == {1.0}


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_the_arcs_of_all_rounds_are_the_arc_of_one_fit(lengths: list[int]):
    whole = sum(lengths)
    walked = [
        Arc(sum(lengths[:index]), own, whole).rate(step, of=own)
        for index, own in enumerate(lengths)
        for step in range(own)
    ]
    at_once = [Arc().rate(step, of=whole) for step in range(whole)]
    assert walked == pytest.approx(at_once, abs=1e-12)


@given(before=st.integers(0, 9), own=st.integers(1, 9), after=st.integers(0, 9), of=steps)
def test_the_rate_falls_and_stays_between_peak_and_zero(before, own, after, of):
    arc = Arc(before, own, before + own + after)
    rates = [arc.rate(step, of=of) for step in range(of)]
    assert all(1 >= rate > 0 for rate in rates)
    assert all(one > next_one for one, next_one in pairwise(rates))
