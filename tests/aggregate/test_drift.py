"""What averaging factors changes, against the same thing computed the long way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.drift import drift_of, merge_error
from fedse.testing import STEM, toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)


def factors(adapter: Adapter) -> tuple[np.ndarray, np.ndarray]:
    tensors = adapter.tensors()
    a, b = (tensors[f"{STEM}.lora_{x}.weight"].astype(float) for x in "AB")
    return b, a


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_the_merge_error_is_the_one_of_the_full_products(seeds: list[int]):
    votes = [toy_adapter(SPEC, seed) for seed in seeds]
    pairs = [factors(vote) for vote in votes]
    whole = np.mean([b @ a for b, a in pairs], axis=0)
    factored = np.mean([b for b, _ in pairs], axis=0) @ np.mean([a for _, a in pairs], axis=0)
    direct = np.linalg.norm(whole - factored) / np.linalg.norm(whole)
    assert merge_error(votes) == pytest.approx(direct, abs=1e-7)


def test_equal_adapters_lose_nothing_and_point_the_same_way():
    vote = toy_adapter(SPEC, 1)
    found = drift_of(CURRENT, vote, {"a": vote, "b": vote})
    assert found.merge_error == pytest.approx(0, abs=1e-7)
    assert found.cosine == pytest.approx({"a": 1.0, "b": 1.0})
    assert found.length["a"] == pytest.approx(np.linalg.norm(vote.vector - CURRENT.vector))


def test_opposite_updates_cancel_and_right_angles_share():
    step = np.zeros((2, SPEC.size), dtype=np.float32)
    step[0, 0] = step[1, 1] = 1
    one, two = (Adapter(SPEC, CURRENT.vector + s) for s in step)
    mean = Adapter(SPEC, ((one.vector + two.vector) / 2).astype(np.float32))
    cosine = drift_of(CURRENT, mean, {"a": one, "b": two}).cosine
    assert cosine == pytest.approx({"a": 2**-0.5, "b": 2**-0.5}, abs=1e-6)
    assert drift_of(CURRENT, CURRENT, {"a": one}).cosine == {"a": 0.0}
