"""Sites of a lower rank: nothing but the product counts, and the wire keeps its layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.low_rank import layers_of
from fedse.aggregate.ranks import at_rank, cut_down, filled_up
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config, ModelSection
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec(rank=4, inputs=9, outputs=7)
RANKS = st.integers(1, 3)


def whole(adapter: Adapter) -> np.ndarray:
    (layer,) = layers_of(adapter)
    return layer.b @ layer.a


@given(seed=st.integers(0, 10**6), rank=RANKS)
def test_filled_up_it_is_the_same_model_in_the_agreed_layout(seed: int, rank: int):
    small = at_rank(SPEC, rank)
    adapter = toy_adapter(small, seed)
    filled = filled_up(adapter, SPEC)
    assert len(filled.to_bytes()) == SPEC.nbytes
    assert whole(filled) == pytest.approx(whole(adapter))
    assert filled.spec.scaling == small.scaling
    a, b = (filled.tensors()[tensor.name] for tensor in SPEC.tensors)
    assert not a[rank:].any()
    assert not b[:, rank:].any()


@given(seed=st.integers(0, 10**6), rank=RANKS)
def test_cut_down_it_is_the_nearest_model_of_that_rank(seed: int, rank: int):
    adapter = toy_adapter(SPEC, seed)
    u, values, vt = np.linalg.svd(whole(adapter))
    near = (u[:, :rank] * values[:rank]) @ vt[:rank]
    found = whole(cut_down(adapter, at_rank(SPEC, rank)))
    assert np.linalg.norm(found - near) <= 1e-5 * values[0]


@given(seed=st.integers(0, 10**6), rank=RANKS)
def test_what_was_of_the_lower_rank_comes_back(seed: int, rank: int):
    small = at_rank(SPEC, rank)
    adapter = toy_adapter(small, seed)
    back = cut_down(filled_up(adapter, SPEC), small)
    assert whole(back) == pytest.approx(whole(adapter), abs=1e-4)


def test_at_the_agreed_rank_nothing_is_touched():
    adapter = toy_adapter(SPEC, 1)
    assert at_rank(SPEC, None) is at_rank(SPEC, 4) is SPEC
    assert cut_down(adapter, SPEC) is filled_up(adapter, SPEC) is adapter


@pytest.mark.parametrize(
    ("rank", "merge", "reason"),
    [(4, "mean", 'needs aggregate.type = "product"'), (9, "product", "<= model.rank = 8")],
)
def test_a_rank_of_its_own_needs_a_merge_of_products_and_fits(rank: int, merge: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        Config(
            model=ModelSection(rank=8),
            aggregate=AggregateSection(type=merge),
            clients=(ClientSection(name="a", env="coin", rank=rank),),
        )
