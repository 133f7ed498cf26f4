"""One copy of the base model: who generates and who trains take turns and leave no trace."""

import gc
from collections.abc import Iterator

import pytest

from tests.needs import needs

needs("torch")

import torch

from fedse.adapters.base import adapter_spec, base_digest, base_path
from fedse.agent import loaded
from fedse.agent.hf import engine_for
from fedse.agent.loaded import load_base, prepare_torch
from fedse.config.training import TrainSection
from fedse.train.batch import Lesson
from fedse.train.lora import trainer_for
from fedse.types import Adapter, AdapterSpec

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
FEW = adapter_spec("tiny", rank=2, alpha=8, targets=("q_proj",))
LESSON = Lesson(tuple(range(7, 40)), (False, True, True) * 11)


def adapter(seed: int, spec: AdapterSpec = SPEC) -> Adapter:
    generator = torch.Generator().manual_seed(seed)
    return Adapter(spec, (0.05 * torch.randn(spec.size, generator=generator)).numpy())


def fit(spec: AdapterSpec = SPEC) -> str:
    options = TrainSection(lr=1e-3, epochs=2)
    trainer = trainer_for(PATH, spec)
    return trainer.fit(
        adapter(1, spec), [LESSON], settings=options, context=99, seed=1
    ).adapter.digest


def logits(merged: Adapter) -> list[float]:
    engine = engine_for(PATH, merged.spec)
    engine.merge(merged)
    with torch.inference_mode():
        return engine.model(input_ids=torch.tensor([LESSON.token_ids])).logits.flatten().tolist()


def weights() -> dict[str, torch.Tensor]:
    model = load_base(PATH).model
    names = (name.replace(".base_layer", "") for name, _ in model.named_parameters())
    found = zip(names, model.parameters(), strict=True)
    return {name: weight.detach().clone() for name, weight in found if "lora_" not in name}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nobody has used the model before, and nobody else has what was made here."""
    prepare_torch(1)
    loaded._load.cache_clear()
    yield
    loaded._load.cache_clear()


def test_who_generates_and_who_trains_share_every_weight():
    logits(adapter(1))
    fit()
    logits(adapter(2))
    gc.collect()
    model = load_base(PATH).model
    shapes = {tuple(weight.shape) for weight in weights().values() if weight.dim() == 2}
    own = {weight.data_ptr() for weight in model.parameters()}
    others = [
        tuple(found.shape)
        for found in gc.get_objects()
        if type(found) in (torch.Tensor, torch.nn.Parameter) and found.data_ptr() not in own
    ]
    assert own
    assert [shape for shape in others if shape in shapes] == []


def test_training_after_generating_has_the_bits_of_training_alone():
    alone = fit()
    logits(adapter(2))
    assert fit() == alone


def test_generating_after_training_has_the_bits_of_generating_alone():
    alone = logits(adapter(2))
    fit()
    assert logits(adapter(2)) == alone != logits(adapter(3))


def test_a_fit_leaves_the_published_weights():
    before = weights()
    logits(adapter(2))
    assert not torch.equal(
        weights()["model.layers.0.mlp.up_proj.weight"], before["model.layers.0.mlp.up_proj.weight"]
    )
    fit()
    after = weights()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_adapters_of_other_layers_and_ranks_leave_no_trace():
    few, all_, fits = logits(adapter(2, FEW)), logits(adapter(2)), (fit(), fit(FEW))
    logits(adapter(2))
    assert logits(adapter(2, FEW)) == few
    assert (fit(), fit(FEW)) == fits
    assert logits(adapter(2)) == all_


def test_the_same_numbers_with_another_alpha_are_another_merge():
    numbers = adapter(2)
    doubled = Adapter(SPEC.model_copy(update={"alpha": 16.0}), numbers.vector)
    assert doubled.digest == numbers.digest
    assert logits(numbers) != logits(doubled)


def test_the_files_of_the_model_are_never_written():
    """Torch maps them into memory, and a merge writes to what was mapped."""
    before = base_digest.__wrapped__(PATH)
    logits(adapter(2))
    fit()
    assert base_digest.__wrapped__(PATH) == before


def test_a_merge_in_bfloat16_is_the_rounded_sum():
    base = load_base(PATH, precision="bfloat16")
    name = "model.layers.0.mlp.up_proj"
    weight = base.model.get_submodule(name).weight
    published = weight.detach().clone()
    merged = adapter(2)
    base.merge(merged)
    stem = f"base_model.model.{name}"
    a, b = (torch.from_numpy(merged.tensors()[f"{stem}.lora_{x}.weight"].copy()) for x in "AB")
    assert torch.equal(weight, (published.float() + SPEC.scaling * (b @ a)).bfloat16())
