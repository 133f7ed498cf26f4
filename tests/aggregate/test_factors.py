"""One factor learned at a time: the other keeps its bits, and does not travel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.factors import (
    largest_reply,
    learned_part,
    reply_spec,
    travelling_spec,
    with_resting_factor,
)
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.errors import AdapterRejected
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
A, B = (tensor.name for tensor in SPEC.tensors)


def config(factors: str, **aggregate: object) -> Config:
    return Config(
        train=TrainSection(factors=factors),
        aggregate=AggregateSection(**aggregate),
        clients=(ClientSection(name="a", env="coin"),),
    )


def returned(factors: str, round: int = 1) -> list[str]:
    return [tensor.name for tensor in reply_spec(SPEC, config(factors), round=round).tensors]


def test_who_learns_what_when():
    assert [returned("both", round) for round in (1, 2)] == [[A, B], [A, B]]
    assert [returned("b", round) for round in (1, 2)] == [[B], [B]]
    # B first, because A has no gradient as long as B is zero.
    assert [returned("alternate", round) for round in (1, 2, 3)] == [[B], [A], [B]]
    assert reply_spec(SPEC, config("both"), round=1) is SPEC


def test_the_layout_of_a_half_is_made_for_it():
    """Its header is that of a safetensors file with these tensors and no others."""
    half = reply_spec(SPEC, config("b"), round=1)
    assert SPEC.nbytes == len(SPEC.header) + 4 * (8 + 6)
    assert half.nbytes == len(half.header) + 4 * 6
    assert A.encode() not in half.header
    assert b'"data_offsets":[0,24]' in half.header
    assert largest_reply(SPEC, config("b")) == half.nbytes
    assert (
        largest_reply(SPEC, config("alternate"))
        == reply_spec(SPEC, config("alternate"), round=2).nbytes
    )
    assert travelling_spec(SPEC, config("b")) == half
    assert travelling_spec(SPEC, config("alternate")) is SPEC


@pytest.mark.parametrize(("factors", "round"), [("b", 1), ("alternate", 2), ("both", 1)])
@given(seed=st.integers(1, 10**6))
def test_what_returns_has_the_learned_factor_of_the_site_and_the_other_of_the_server(
    factors: str, round: int, seed: int
):
    current, trained = toy_adapter(SPEC, 0), toy_adapter(SPEC, seed)
    part = reply_spec(SPEC, config(factors), round=round)
    whole = with_resting_factor(learned_part(trained, part).to_bytes(), part, current)
    learned = {tensor.name for tensor in part.tensors}
    found = Adapter(SPEC, np.frombuffer(whole, dtype="<f4", offset=len(SPEC.header)))
    for name, tensor in found.tensors().items():
        source = trained if name in learned else current
        assert tensor.tobytes() == source.tensors()[name].tobytes()


def test_a_whole_adapter_in_the_place_of_a_half_is_rejected():
    current, half = toy_adapter(SPEC, 0), reply_spec(SPEC, config("b"), round=1)
    sound = learned_part(current, half).to_bytes()
    for wrong in (current.to_bytes(), sound[:-1], sound.replace(b"lora_B", b"lora_A"), b""):
        with pytest.raises(AdapterRejected):
            with_resting_factor(wrong, half, current)


@pytest.mark.parametrize(
    ("factors", "aggregate", "reason"),
    [
        ("a", {}, "learns nothing"),
        ("b", {"type": "product"}, 'needs train.factors = "both"'),
        ("alternate", {"outer": "nesterov"}, "the factor that rests"),
        ("both", {"type": "product", "outer": "adam"}, 'needs aggregate.outer = "none"'),
    ],
)
def test_what_would_move_the_resting_factor_is_refused(factors, aggregate, reason):
    with pytest.raises(ValueError, match=reason):
        config(factors, **aggregate)
    assert isinstance(config("b", outer="nesterov"), Config)
