"""One factor learned at a time: the other keeps its bits, and does not travel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.factors import (
    learned_part,
    travelling_spec,
    with_resting_factor,
)
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.errors import AdapterRejected
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
A, B = (tensor.name for tensor in SPEC.tensors)


def config(factors: str) -> Config:
    clients = (ClientSection(name="a", env="coin"),)
    return Config(train=TrainSection(factors=factors), clients=clients)


def test_what_travels_is_what_is_ever_learned():
    for factors, names in {"both": [A, B], "b": [B]}.items():
        sent = travelling_spec(SPEC, config(factors))
        assert [tensor.name for tensor in sent.tensors] == names
    assert travelling_spec(SPEC, config("both")) is SPEC


def test_the_layout_of_a_half_is_made_for_it():
    """Its header is that of a safetensors file with these tensors and no others."""
    half = travelling_spec(SPEC, config("b"))
    assert SPEC.nbytes == len(SPEC.header) + 4 * (8 + 6)
    assert half.nbytes == len(half.header) + 4 * 6
    assert A.encode() not in half.header
    assert b'"data_offsets":[0,24]' in half.header


@pytest.mark.parametrize("factors", ["b", "both"])
@given(seed=st.integers(1, 10**6))
def test_what_returns_has_the_learned_factor_of_the_site_and_the_other_of_the_server(
    factors: str, seed: int
):
    current, trained = toy_adapter(SPEC, 0), toy_adapter(SPEC, seed)
    part = travelling_spec(SPEC, config(factors))
    whole = with_resting_factor(learned_part(trained, part).to_bytes(), part, current)
    learned = {tensor.name for tensor in part.tensors}
    found = Adapter(SPEC, np.frombuffer(whole, dtype="<f4", offset=len(SPEC.header)))
    for name, tensor in found.tensors().items():
        source = trained if name in learned else current
        assert tensor.tobytes() == source.tensors()[name].tobytes()


def test_a_whole_adapter_in_the_place_of_a_half_is_rejected():
    current, half = toy_adapter(SPEC, 0), travelling_spec(SPEC, config("b"))
    sound = learned_part(current, half).to_bytes()
    for wrong in (current.to_bytes(), sound[:-1], sound.replace(b"lora_B", b"lora_A"), b""):
        with pytest.raises(AdapterRejected):
            with_resting_factor(wrong, half, current)
