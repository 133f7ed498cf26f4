"""Sites of a lower rank: nothing but the product counts, and the wire keeps its layout."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import (
    BufferSection,
    ClientSection,
    Config,
    ModelSection,
    RolloutSection,
)
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.site.open import open_site
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter
from fedse_variants.low_rank import layers_of
from fedse_variants.ranks import at_rank, cut_down, filled_up
from tests.needs import needs

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


def config(merge: str, **options: object) -> Config:
    return Config(
        model=ModelSection(rank=4, alpha=8),
        aggregate=AggregateSection(type=merge),
        train=TrainSection(loss="ranks", options=options),
        rollout=RolloutSection(context=512, new_tokens=6),
        buffer=BufferSection(demonstrations=4),
        clients=(ClientSection(name="a", env="maze", options={"prompt": "short"}),),
    )


def test_a_rank_of_its_own_needs_a_merge_of_products():
    with pytest.raises(ValueError, match=r'needs aggregate\.type = "product"'):
        config("mean", ranks={"a": 2})
    for wrong in ({}, {"ranks": {"a": 0}}, {"ranks": {}, "rank": 2}):
        with pytest.raises(ValueError, match=r"train\.options\.rank"):
            config("product", **wrong)


def test_a_site_trains_at_its_own_rank_and_answers_in_the_agreed_layout(tmp_path: Path):
    needs("torch")
    found: dict[int, Adapter] = {}
    for rank in (2, 9):
        given = config("product", ranks={"a": rank})
        site = open_site(given, "a", tmp_path / str(rank), clock=lambda: 0.0)
        start = initial_adapter(site.spec, seed=0)
        taught = list(site.buffer.lessons("run", 0))
        options = given.train.model_copy(update={"lr": 2e-3, "max_steps": 2})
        found[rank] = site.fit(start, taught, options, 1, Course(site="a")).adapter
        site.buffer.close()
        assert found[rank].spec == start.spec
    for name, tensor in found[2].tensors().items():
        by_rank = tensor if "lora_A" in name else tensor.T
        assert by_rank[:2].any()
        assert not by_rank[2:].any()
    assert any(tensor[2:].any() for name, tensor in found[9].tensors().items() if "lora_A" in name)


def test_a_lower_rank_filled_up_with_zeros_is_the_same_model():
    needs("torch")
    import torch

    from fedse.train.lora import load_adapter, trainer_for

    path, spec = base_path("tiny"), adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
    small = at_rank(spec, 2)
    adapter = Adapter(small, 0.1 * torch.randn(small.size).numpy())
    ids = torch.tensor([[7, 8, 9, 10, 11, 12]])
    logits = []
    for one in (adapter, filled_up(adapter, spec), initial_adapter(spec, seed=0)):
        model = trainer_for(path, one.spec).model()
        load_adapter(model, one)
        with torch.inference_mode():
            logits.append(model(input_ids=ids).logits)
    assert torch.allclose(logits[0], logits[1], atol=1e-4)
    assert not torch.allclose(logits[0], logits[2], atol=1e-2)
