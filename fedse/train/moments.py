"""What AdamW remembers of each factor of an adapter, as bytes and back.

The moments belong to the place of a factor in the model, not to its values: they continue when the
factor is replaced by the merged one of all clients.
"""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from peft import get_peft_model_state_dict
from safetensors.torch import load, save
from torch import Tensor
from torch.optim import AdamW

from fedse.errors import TrainError, boundary
from fedse.types import AdapterSpec


def save_moments(optimizer: AdamW, model: Any, spec: AdapterSpec) -> bytes:
    """Both moments and the step count of every factor of `spec`, as a safetensors file."""
    factors = factors_of(model, spec)
    tensors: dict[str, Tensor] = {"layout": _layout(spec)}
    steps = []
    for name, factor in factors.items():
        # A factor that never had a gradient, as of an expert that was never chosen, has no state.
        state = optimizer.state.get(factor, {})
        steps.append(int(state.get("step", 0)))
        for moment in ("exp_avg", "exp_avg_sq"):
            values = state.get(moment, torch.zeros_like(factor))
            tensors[f"{name}.{moment}"] = values.detach().to("cpu", torch.float32).contiguous()
    return save({**tensors, "steps": torch.tensor(steps)})


def load_moments(data: bytes, optimizer: AdamW, model: Any, spec: AdapterSpec) -> None:
    """The optimiser continues from the moments; those of another layout are ignored."""
    factors = factors_of(model, spec)
    with boundary(TrainError, "the moments of the last round"):
        tensors = load(data)
        if not torch.equal(tensors["layout"], _layout(spec)):
            return
        for (name, factor), step in zip(factors.items(), tensors["steps"].tolist(), strict=True):
            if step:
                optimizer.state[factor] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": tensors[f"{name}.exp_avg"].to(factor.device),
                    "exp_avg_sq": tensors[f"{name}.exp_avg_sq"].to(factor.device),
                }


def factors_of(model: Any, spec: AdapterSpec) -> dict[str, Tensor]:
    """The trained parameters by the names and in the order of `spec`."""
    found = get_peft_model_state_dict(model, state_dict=dict(model.named_parameters()))
    return {tensor.name: found[tensor.name] for tensor in spec.tensors}


def _layout(spec: AdapterSpec) -> Tensor:
    """Equal where adapters have the same base weights and the same layout."""
    return torch.tensor(list(bytes.fromhex(spec.identity)), dtype=torch.uint8)


def bundled(moments: Mapping[str, bytes]) -> bytes:
    """What is remembered of several blocks, as one safetensors file."""
    return save(
        {
            block: torch.frombuffer(bytearray(data), dtype=torch.uint8)
            for block, data in moments.items()
        }
    )


def unbundled(data: bytes | None, blocks: Collection[str]) -> dict[str, bytes]:
    """What is remembered of each of these blocks, as far as anything is."""
    with boundary(TrainError, "the moments of the last round"):
        found = load(data) if data else {}
    return {block: found[block].numpy().tobytes() for block in blocks if block in found}
