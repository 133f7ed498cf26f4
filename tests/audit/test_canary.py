"""Planted secrets: where they stand, how they are ranked, how many bits that is."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.audit.canary import (
    LENGTH,
    PLACES,
    SYMBOLS,
    exposed_bits,
    exposure,
    make_canaries,
    parted_tokens,
    random_codes,
    rank_of_first,
)
from tests.audit.test_game import START, lesson

POOL = [lesson(number) for number in range(6)]


def test_a_secret_ranked_first_among_4096_is_exposed_by_12_bits():
    assert exposure(1, 4096) == 12.0
    assert exposure(4096, 4096) == 0.0
    assert exposure(2048, 4096) == 1.0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_a_rank_counts_from_the_lowest_and_equal_ones_share(values):
    scores = np.array(values, dtype=float)
    lower, equal = sum(v < values[0] for v in values), values.count(values[0])
    assert rank_of_first(scores) == 1 + lower + (equal - 1) / 2


def test_codes_are_different_and_follow_from_the_seed():
    codes = random_codes(5000, seed=1)
    assert len(set(codes)) == 5000
    assert all(len(code) == LENGTH and set(code) <= set(SYMBOLS) for code in codes)
    assert codes == random_codes(5000, seed=1)
    assert LENGTH * log2(len(SYMBOLS)) == 32


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_stands_where_it_was_planted_and_nowhere_else(place):
    first, *others = make_canaries(POOL, place, 3, seed=1)
    (turn,) = first.episode().turns
    texts = {"typed": turn.action, "seen": turn.observation}
    assert texts.pop(place).endswith(first.code)
    assert first.code not in "".join(texts.values())
    assert (turn.context_ids, turn.action_ids) == ((), ())
    assert len({first.code, *(one.code for one in others)}) == 3


def by_letter(episode):
    """A tokenizer with one token per letter."""
    (turn,) = episode.turns
    ids = ((*map(ord, turn.observation), 1), (*map(ord, turn.action), 2))
    changed = turn.model_copy(update={"context_ids": ids[0], "action_ids": ids[1]})
    return episode.model_copy(update={"turns": (changed,)})


class Remembers:
    """A reply that finds these letters more likely the earlier they are in its list."""

    def __init__(self, favourites: list[str]) -> None:
        self.favourites = [tuple(map(ord, code)) for code in favourites]

    def tail_losses(self, adapter, head, tails):
        if adapter is START:
            return np.zeros(len(tails))
        whole = [(*head, *tail) for tail in tails]
        return np.array([self._loss(ids) for ids in whole])

    def _loss(self, ids):
        for rank, code in enumerate(self.favourites):
            if code == ids[-len(code) :]:
                return -1000.0 + rank
        return 0.0


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_that_is_remembered_is_found_and_any_other_is_not(place):
    known, unknown = make_canaries(POOL, place, 2, seed=1)
    reply, probe = object(), Remembers([known.code])
    own = (START, reply, probe, by_letter)
    assert exposed_bits(known, *own, candidates=4096, seed=1) == 12.0
    assert exposed_bits(unknown, *own, candidates=4096, seed=1) == pytest.approx(1.0, abs=0.01)


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=6).map(tuple), min_size=2))
def test_what_all_rows_share_is_cut_off_at_both_ends_and_nothing_else(rows):
    head, tails = parted_tokens(rows)
    assert all(row[: len(head)] == head for row in rows)
    assert all(row[len(head) :][: len(tail)] == tail for row, tail in zip(rows, tails, strict=True))
    ends = {row[len(head) + len(tail) :] for row, tail in zip(rows, tails, strict=True)}
    assert len(ends) == 1
    assert all(tails)
