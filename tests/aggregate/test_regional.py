"""Any partition of the votes into regions gives the same adapter, bit for bit."""

from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.exact import MOST_PLANES
from fedse.aggregate.merge import WEIGHTS, Vote, checked_vote, clip_bound, shares_of
from fedse.aggregate.merge import mean as plain_mean
from fedse.aggregate.regional import (
    merge_sums,
    parse_sum,
    regional_sum,
    require_sound_sum,
    sum_to_bytes,
)
from fedse.config.aggregation import AggregateSection
from fedse.errors import AdapterRejected
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)
SETTINGS = [
    {"clip": clip, **more}
    for clip in ("none", "median")
    for more in ({}, {"type": "weighted"}, {"step": 3.0})
]
RULES = pytest.mark.parametrize(
    "rule", SETTINGS, ids=lambda rule: "-".join(map(str, rule.values()))
)

seeds = st.lists(st.integers(1, 10**6), min_size=1, max_size=12, unique=True)


def exactly(**rule: object) -> AggregateSection:
    return AggregateSection(**{"max_norm": 1e9, **rule})


def voted(seed_list: list[int], settings: AggregateSection) -> list[Vote]:
    made = []
    for seed in seed_list:
        data = toy_adapter(SPEC, seed, scale=10.0 ** (seed % 13 - 6)).to_bytes()
        name, lessons = f"site-{seed}", seed % 5
        made.append(checked_vote(name, lambda d=data: d, lessons, CURRENT, settings))
    return made


def through_regions(regions: list[list[Vote]], settings: AggregateSection) -> Adapter:
    """What a root makes of the regions' lengths and of the bytes of their sums."""
    votes = sorted((vote for region in regions for vote in region), key=lambda vote: vote.client)
    norms = [vote.length or 0.0 for vote in votes]
    weights = [WEIGHTS[settings.type](vote.lessons) for vote in votes]
    bound = clip_bound(norms, settings)
    sums = [
        sum_to_bytes(regional_sum(CURRENT, region, bound=bound, settings=settings))
        for region in regions
    ]
    for data, region in zip(sums, regions, strict=True):
        weight = sum(WEIGHTS[settings.type](vote.lessons) for vote in region)
        planes = parse_sum(data, SPEC)
        require_sound_sum(planes, CURRENT, weight=weight, bound=bound, settings=settings)
    reads = [partial(bytes, data) for data in sums]
    return merge_sums(CURRENT, reads, shares_of(norms, weights, settings), settings)


@RULES
@given(seed_list=seeds, split=st.integers(0, 10**6))
def test_any_partition_gives_the_digest_of_one_region(rule, seed_list: list[int], split: int):
    settings, draw = exactly(**rule), Random(split)
    votes = voted(seed_list, settings)
    regions: dict[int, list[Vote]] = {}
    for vote in draw.sample(votes, len(votes)):
        regions.setdefault(draw.randrange(4), []).append(vote)
    flat = through_regions([votes], settings)
    assert through_regions(list(regions.values()), settings).digest == flat.digest


@given(seed_list=seeds, order=st.integers(0, 10**6))
def test_the_bytes_of_a_sum_do_not_depend_on_the_order_of_its_votes(
    seed_list: list[int], order: int
):
    settings = exactly()
    votes = voted(seed_list, settings)
    bound = clip_bound([vote.length or 0.0 for vote in votes], settings)
    first, second = (
        sum_to_bytes(regional_sum(CURRENT, listed, bound=bound, settings=settings))
        for listed in (votes, Random(order).sample(votes, len(votes)))
    )
    assert first == second


def test_where_float64_rounds_the_exact_sum_does_not():
    """2^60 + 1 - 2^60 is 0 in float64 in the order of names; a third of 1 is the mean."""
    numbers = [2.0**60, 1.0, -(2.0**60)]
    votes = [
        Vote(str(i), partial(Adapter, SPEC, np.full(SPEC.size, n, dtype=np.float32)), length=1.0)
        for i, n in enumerate(numbers)
    ]
    settings = exactly(clip="none", max_norm=1e30)
    ordered = plain_mean(CURRENT, votes, settings=settings)
    exact = through_regions([votes[:1], votes[1:]], settings)
    assert ordered.vector.tolist() == [0.0] * SPEC.size
    assert exact.vector.tolist() == [float(np.float32(1 / 3))] * SPEC.size


@given(
    seed_list=st.lists(st.integers(1, 10**6), min_size=1, max_size=12, unique=True),
    clip=st.sampled_from(["none", "median"]),
)
def test_votes_of_like_size_have_the_adapter_of_one_coordinator(seed_list: list[int], clip: str):
    """Rounding of float64 is 2^29 times finer than that of an adapter, so both sums agree."""
    settings = exactly(clip=clip)
    votes = [
        checked_vote(f"site-{seed}", toy_adapter(SPEC, seed).to_bytes, 1, CURRENT, settings)
        for seed in seed_list
    ]
    ordered = plain_mean(CURRENT, votes, settings=settings)
    regions = [region for region in (votes[::2], votes[1::2]) if region]
    assert through_regions(regions, settings).digest == ordered.digest


def test_without_votes_the_adapter_stays():
    assert merge_sums(CURRENT, [], [], exactly()) is CURRENT


@pytest.mark.parametrize("length", [0, 1, 8 * SPEC.size - 1, 8 * SPEC.size * (MOST_PLANES + 1)])
def test_bytes_of_another_length_are_no_sum(length: int):
    with pytest.raises(AdapterRejected, match=f"a sum of {length} bytes, expected 1 to 24 times"):
        parse_sum(bytes(length), SPEC)


HOSTILE = {
    "not finite": (np.nan, "not finite"),
    "infinite": (np.inf, "not finite"),
    "too large to be squared": (1e200, "not finite"),
    "longer than an adapter may be": (1e7, "allowed is 10000"),
    "farther away than any vote": (30.0, "no vote may be farther than 0.5"),
}


@pytest.mark.parametrize(("number", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_region_has_no_more_influence_than_its_sites(number: float, reason: str):
    planes = [3 * CURRENT.vector.astype(np.float64)]
    settings = exactly(max_norm=1e4)
    require_sound_sum(planes, CURRENT, weight=3.0, bound=0.5, settings=settings)
    planes[0][2] += number
    with pytest.raises(AdapterRejected, match=reason):
        require_sound_sum(planes, CURRENT, weight=3.0, bound=0.5, settings=settings)
