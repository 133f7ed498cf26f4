"""The tiny model with an adapter, and when two gradients count as equal."""

import pytest

from tests.needs import needs

needs("torch")

import torch
from torch import Tensor

from fedse.adapters.base import adapter_spec, base_path
from fedse.agent.loaded import prepare_torch
from fedse.train.lora import load_adapter, trainer_for
from fedse.types import Adapter

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))


def adapter(seed: int = 5) -> Adapter:
    generator = torch.Generator().manual_seed(seed)
    return Adapter(SPEC, (0.05 * torch.randn(SPEC.size, generator=generator)).numpy())


def ready(start: Adapter | None = None):
    prepare_torch(1)
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, start or adapter())
    return model


def gradient_of(model) -> Tensor:
    """What was added up in the model, which then has none."""
    parts = [p for p in model.parameters() if p.requires_grad]
    found = torch.cat([
        (torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parts
    ])  # fmt: skip
    model.zero_grad()
    return found


def noted(heard: list[Tensor], found: Tensor) -> Tensor:
    heard.append(found.clone())
    return found


def assert_same(one: tuple[float, Tensor], other: tuple[float, Tensor]) -> None:
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    scale = one[1].abs().max()
    assert scale > 1e-3
    assert (one[1] - other[1]).abs().max() < 2e-5 * scale
