"""What averaging factors changes, against the same thing computed the long way."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate import drift
from fedse.aggregate.drift import drift_of
from fedse.testing import STEM, toy_adapter, toy_spec
from fedse.types import Adapter, AdapterSpec, TensorSpec

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)


def factors(adapter: Adapter) -> tuple[np.ndarray, np.ndarray]:
    tensors = adapter.tensors()
    a, b = (tensors[f"{STEM}.lora_{x}.weight"].astype(float) for x in "AB")
    return b, a


WIDE = toy_spec(inputs=40, outputs=30)
"""Larger than the factors of six voters together, so its products are never formed."""


def loads(*adapters: Adapter) -> list[Callable[[], Adapter]]:
    return [lambda adapter=adapter: adapter for adapter in adapters]


def merge_error(votes: list[Callable[[], Adapter]], spec: AdapterSpec) -> float:
    start = toy_adapter(spec, 0)
    return drift_of(
        start, start, {str(place): vote for place, vote in enumerate(votes)}
    ).merge_error


@pytest.mark.parametrize("spec", [SPEC, WIDE], ids=["many voters", "few voters"])
@given(seeds=st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_the_merge_error_is_the_one_of_the_full_products(spec: AdapterSpec, seeds: list[int]):
    votes = [toy_adapter(spec, seed) for seed in seeds]
    pairs = [factors(vote) for vote in votes]
    whole = np.mean([b @ a for b, a in pairs], axis=0)
    factored = np.mean([b for b, _ in pairs], axis=0) @ np.mean([a for _, a in pairs], axis=0)
    direct = np.linalg.norm(whole - factored) / np.linalg.norm(whole)
    assert merge_error(loads(*votes), spec) == pytest.approx(direct, abs=1e-7)


def test_equal_adapters_lose_nothing_and_point_the_same_way():
    vote = toy_adapter(SPEC, 1)
    found = drift_of(CURRENT, vote, dict(zip("ab", loads(vote, vote), strict=True)))
    assert found.merge_error == pytest.approx(0, abs=1e-7)
    assert found.cosine == pytest.approx({"a": 1.0, "b": 1.0})
    assert found.length["a"] == pytest.approx(np.linalg.norm(vote.vector - CURRENT.vector))


def test_opposite_updates_cancel_and_right_angles_share():
    step = np.zeros((2, SPEC.size), dtype=np.float32)
    step[0, 0] = step[1, 1] = 1
    one, two = (Adapter(SPEC, CURRENT.vector + s) for s in step)
    mean = Adapter(SPEC, ((one.vector + two.vector) / 2).astype(np.float32))
    told = dict(zip("ab", loads(one, two), strict=True))
    cosine = drift_of(CURRENT, mean, told).cosine
    assert cosine == pytest.approx({"a": 2**-0.5, "b": 2**-0.5}, abs=1e-6)
    assert drift_of(CURRENT, CURRENT, {"a": told["a"]}).cosine == {"a": 0.0}


def test_layers_held_apart_give_the_error_of_all_together(monkeypatch: pytest.MonkeyPatch):
    names = sorted(f"l{i}.lora_{factor}.weight" for i in range(4) for factor in "AB")
    tensors = [TensorSpec(name=n, shape=(2, 5) if "_A" in n else (3, 2)) for n in names]
    spec = AdapterSpec.model_validate({**SPEC.model_dump(), "tensors": tensors})
    told, opened = loads(*(toy_adapter(spec, seed) for seed in (1, 2, 3))), []
    counted = [lambda load=load: opened.append(1) or load() for load in told]
    together = merge_error(counted, spec)
    assert len(opened) == 3 + 3, "once for the length of its update"
    monkeypatch.setattr(drift, "HELD", 1)
    assert merge_error(counted, spec) == together
    assert len(opened) == 3 + 3 + 3 + 3 * 4


def test_nothing_grows_with_the_square_of_the_number_of_voters():
    """Products of all voters with all voters would be 64 times as large for 8 times as many."""
    spec = toy_spec(rank=8, inputs=64, outputs=64)
    vote = toy_adapter(spec, 1)

    def peak_bytes(voters: int) -> int:
        tracemalloc.start()
        try:
            merge_error(loads(*[vote] * voters), spec)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak_bytes(800) < 9 * peak_bytes(100)
