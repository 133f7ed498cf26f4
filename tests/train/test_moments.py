"""AdamW's state as bytes: nothing is lost, and what belongs to another adapter is not used."""

import pytest

from tests.needs import needs

needs("torch")

import torch
from safetensors.torch import load
from torch import Tensor
from torch.optim import AdamW

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import LEVEL
from fedse.errors import TrainError
from fedse.train.batch import Lesson
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.moments import load_moments, save_moments
from fedse.train.optimise import make_optimizer, take_steps

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
SETTINGS = TrainSection(lr=2e-3, optimizer="kept")
BATCHES = [
    [Lesson(tuple(range(first, first + length)), (False, True) * (length // 2))]
    for first, length in ((7, 30), (9, 12), (40, 50), (3, 22))
]


def ready() -> tuple[object, AdamW]:
    prepare_torch(1)
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, initial_adapter(SPEC, seed=0))
    return model, make_optimizer(model, SETTINGS)


def train(model: object, optimizer: AdamW, batches: list[list[Lesson]]) -> None:
    place = TrainerSection()
    for _ in take_steps(
        model, batches, settings=SETTINGS, place=place, arc=LEVEL, optimizer=optimizer
    ):
        pass


def values(model) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad]).clone()


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_fit_cut_in_two_has_the_bits_of_the_whole(cut: int):
    model, optimizer = ready()
    train(model, optimizer, BATCHES)
    whole = values(model)
    model, optimizer = ready()
    train(model, optimizer, BATCHES[:cut])
    data = save_moments(optimizer, model, SPEC)
    onward = make_optimizer(model, SETTINGS)
    load_moments(data, onward, model, SPEC)
    assert save_moments(onward, model, SPEC) == data
    train(model, onward, BATCHES[cut:])
    assert torch.equal(values(model), whole)


def test_every_factor_has_both_moments_and_its_own_step_count():
    model, optimizer = ready()
    train(model, optimizer, BATCHES[:3])
    tensors = load(save_moments(optimizer, model, SPEC))
    names = {t.name: t.shape for t in SPEC.tensors}
    assert {f"{name}.{moment}" for name in names for moment in ("exp_avg", "exp_avg_sq")} | {
        "layout",
        "steps",
    } == set(tensors)
    assert all(tuple(tensors[f"{name}.exp_avg"].shape) == shape for name, shape in names.items())
    assert tensors["steps"].tolist() == [3] * len(names)
    assert all((tensors[f"{name}.exp_avg_sq"] >= 0).all() for name in names)


def test_a_factor_that_never_had_a_gradient_stays_fresh():
    model, optimizer = ready()
    train(model, optimizer, BATCHES[:1])
    left_out = next(iter(optimizer.state))
    del optimizer.state[left_out]
    data = save_moments(optimizer, model, SPEC)
    assert sorted(load(data)["steps"].tolist())[:2] == [0, 1]
    onward = make_optimizer(model, SETTINGS)
    load_moments(data, onward, model, SPEC)
    assert set(onward.state) == set(optimizer.state)
    assert save_moments(onward, model, SPEC) == data


def test_moments_are_twice_as_large_as_an_adapter():
    model, optimizer = ready()
    train(model, optimizer, BATCHES[:1])
    size = len(save_moments(optimizer, model, SPEC))
    assert 8 * SPEC.size < size < 8 * SPEC.size + 500 * len(SPEC.tensors)


def test_moments_of_another_layout_or_base_are_not_used():
    model, optimizer = ready()
    train(model, optimizer, BATCHES[:1])
    data = save_moments(optimizer, model, SPEC)
    other = SPEC.model_copy(update={"base_digest": "0" * 64})
    onward = make_optimizer(model, SETTINGS)
    load_moments(data, onward, model, other)
    assert not onward.state


def test_what_is_no_moments_is_named():
    model, optimizer = ready()
    with pytest.raises(TrainError, match="moments of the last round"):
        load_moments(b"nonsense", optimizer, model, SPEC)
