"""The mean of products, against the same thing computed the long way."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.merge import Vote
from fedse.config.aggregation import AggregateSection
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter
from fedse_variants.low_rank import layers_of, nearest_product
from fedse_variants.product import ProductOptions, product

SPEC = toy_spec(rank=2, inputs=7, outputs=5)
CURRENT = toy_adapter(SPEC, 0)
seeds = st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True)


def whole(adapter: Adapter) -> np.ndarray:
    """The product of the one layer."""
    (layer,) = layers_of(adapter)
    return layer.b @ layer.a


def merged(votes: Sequence[Adapter], names: Sequence[str] = (), **settings: object) -> Adapter:
    labels = names or [f"client-{i}" for i in range(len(votes))]
    told = [Vote(name, lambda vote=vote: vote) for name, vote in zip(labels, votes, strict=True)]
    own = {key: settings.pop(key) for key in ("rule", "most") if key in settings}
    options = ProductOptions(step=own.get("rule", "fixed"), most=own.get("most", 10.0))
    given = AggregateSection(**{"type": "product", "clip": "none", **settings})
    return product(CURRENT, told, settings=given, options=options)


def votes(seed_list: Sequence[int], spec=SPEC) -> list[Adapter]:
    return [toy_adapter(spec, seed, scale=1 + seed % 5) for seed in seed_list]


def truncated(full: np.ndarray, rank: int) -> np.ndarray:
    u, values, vt = np.linalg.svd(full, full_matrices=False)
    return (u[:, :rank] * values[:rank]) @ vt[:rank]


@given(seed_list=seeds)
def test_it_is_the_truncated_decomposition_of_the_dense_mean(seed_list: list[int]):
    mean = np.mean([whole(vote) for vote in votes(seed_list)], axis=0)
    near = truncated(mean, SPEC.rank)
    found = whole(merged(votes(seed_list)))
    assert np.linalg.norm(found - near) <= 1e-5 * np.linalg.norm(mean)


@given(seed_list=seeds)
def test_it_is_never_further_from_the_mean_product_than_the_mean_of_factors(seed_list: list[int]):
    told = votes(seed_list)
    mean = np.mean([whole(vote) for vote in told], axis=0)
    factors = np.mean([vote.vector.astype(np.float64) for vote in told], axis=0)
    plain = Adapter(SPEC, factors.astype(np.float32))
    ours, theirs = (np.linalg.norm(whole(a) - mean) for a in (merged(told), plain))
    assert ours <= theirs + 1e-5 * np.linalg.norm(mean)


@given(seed=st.integers(1, 10**6), copies=st.integers(1, 5))
def test_one_client_or_equal_ones_merge_to_themselves(seed: int, copies: int):
    vote = toy_adapter(SPEC, seed)
    for clip in ("none", "median"):
        assert merged([vote] * copies, clip=clip).digest == vote.digest


@given(seed_list=seeds, order=st.integers(0, 10**6))
def test_the_order_of_arrival_changes_no_bit(seed_list: list[int], order: int):
    told, names = votes(seed_list), [f"client-{i}" for i in range(len(seed_list))]
    places = Random(order).sample(range(len(told)), len(told))
    shuffled = merged([told[p] for p in places], [names[p] for p in places])
    assert merged(told, names).digest == shuffled.digest


@given(seed_list=seeds, order=st.integers(0, 10**6))
def test_who_is_who_changes_the_product_by_rounding_only(seed_list: list[int], order: int):
    told = votes(seed_list)
    one, two = whole(merged(told)), whole(merged(Random(order).sample(told, len(told))))
    scale = max(np.linalg.norm(whole(vote)) for vote in told)
    # Two singular values that are nearly equal may change places at the cut.
    assert abs(np.linalg.norm(one) - np.linalg.norm(two)) <= 1e-5 * scale
    mean = np.mean([whole(vote) for vote in told], axis=0)
    lost = [np.linalg.norm(found - mean) for found in (one, two)]
    assert lost[0] == pytest.approx(lost[1], abs=1e-5 * scale)


@given(seed_list=seeds, gauge=st.integers(0, 10**6))
def test_other_factors_of_the_same_products_give_the_same_product(seed_list, gauge: int):
    """(G A, B / G) is the same model, which a mean of factors does not know."""
    told = votes(seed_list)
    mean = np.linalg.norm(np.mean([whole(vote) for vote in told], axis=0))
    turned = []
    for i, vote in enumerate(told):
        (layer,) = layers_of(vote)
        turn, _ = np.linalg.qr(np.random.default_rng([gauge, i]).standard_normal((2, 2)))
        vector = np.concatenate([(turn @ layer.a).reshape(-1), (layer.b @ turn.T).reshape(-1)])
        turned.append(Adapter(SPEC, vector.astype(np.float32)))
    one, two = whole(merged(told)), whole(merged(turned))
    assert abs(np.linalg.norm(one) - np.linalg.norm(two)) <= 1e-4 * max(
        mean, *(np.linalg.norm(whole(vote)) for vote in told)
    )


@pytest.mark.parametrize("step", [0.5, 2.0])
@given(seed_list=seeds)
def test_a_step_is_one_of_the_products(step: float, seed_list: list[int]):
    here = whole(CURRENT)
    mean = np.mean([whole(vote) for vote in votes(seed_list)], axis=0)
    goal = here + step * (mean - here)
    found = whole(merged(votes(seed_list), step=step))
    assert np.linalg.norm(found - truncated(goal, SPEC.rank)) <= 1e-4 * np.linalg.norm(goal)


@given(seed_list=st.lists(st.integers(1, 10**6), min_size=2, max_size=5, unique=True))
def test_fedexp_measures_the_products(seed_list: list[int]):
    here, products = whole(CURRENT), [whole(vote) for vote in votes(seed_list)]
    mean = np.mean(products, axis=0) - here
    squares = np.mean([np.sum((one - here) ** 2) for one in products])
    step = max(1.0, squares / (2 * np.sum(mean**2)))
    goal = here + step * mean
    found = whole(merged(votes(seed_list), rule="fedexp", most=1e6))
    assert np.linalg.norm(found - truncated(goal, SPEC.rank)) <= 1e-4 * np.linalg.norm(goal)


@given(seed=st.integers(1, 10**6))
def test_the_pair_of_factors_is_the_one_like_the_current(seed: int):
    """Turned and scaled factors of one product come back, whatever the signs of an SVD."""
    (layer,) = layers_of(toy_adapter(SPEC, seed))
    q, _ = np.linalg.qr(layer.a.T)
    a = 3 * q.T
    b, found = nearest_product([layer.b], [a], rank=2, like=a)
    assert found == pytest.approx(a, abs=1e-9)
    assert b == pytest.approx(layer.b, abs=1e-9)


def test_a_direction_without_weight_can_still_be_learned():
    """Both factors of it at zero would have no gradient, for ever."""
    zero = [np.zeros((5, 2))]
    (layer,) = layers_of(CURRENT)
    b, a = nearest_product(zero, [layer.a], rank=2, like=layer.a)
    assert not b.any()
    assert np.linalg.norm(a) == pytest.approx(np.linalg.norm(layer.a))
    assert np.linalg.matrix_rank(a) == 2


def test_a_rank_beyond_the_size_of_a_layer_is_filled_with_nothing():
    wide = toy_spec(rank=4, inputs=3, outputs=2)
    told = votes([1, 2, 3], wide)
    labels = [Vote(str(i), lambda vote=vote: vote) for i, vote in enumerate(told)]
    found = product(toy_adapter(wide, 0), labels, settings=AggregateSection(clip="none"))
    mean = np.mean([whole(vote) for vote in told], axis=0)
    assert whole(found) == pytest.approx(mean, abs=1e-5)


def test_nobody_voting_leaves_the_adapter_as_it_is():
    assert merged([]) is CURRENT
