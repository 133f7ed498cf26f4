"""Base weights with an adapter merged in, as a folder that a server can load."""

import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fedse.errors import StoreError, boundary
from fedse.store.files import new_folder
from fedse.types import Adapter

PREFIX = "base_model.model."


def write_merged(base: Path, adapter: Adapter, folder: Path) -> None:
    """`folder` is new and holds the weights of `base` as W + scaling * B A, in the base's format.

    The sum is computed in float32. It appears only when it is complete.
    """
    tensors = {name: torch.from_numpy(t.copy()) for name, t in adapter.tensors().items()}
    with boundary(StoreError, f"{folder} cannot be written"), new_folder(folder) as made:
        for file in sorted(base.glob("*.safetensors")):
            merged = {}
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (it is not a dict)
                    merged[name] = _merge(name, weights.get_tensor(name), tensors, adapter)
            save_file(merged, made / file.name, metadata={"format": "pt"})
        for file in base.iterdir():
            if file.suffix == ".json" or file.name == "chat_template.jinja":
                shutil.copyfile(file, made / file.name)


def _merge(
    name: str, weight: torch.Tensor, tensors: dict[str, torch.Tensor], adapter: Adapter
) -> torch.Tensor:
    stem = f"{PREFIX}{name.removesuffix('.weight')}"
    if f"{stem}.lora_A.weight" not in tensors:
        return weight
    a, b = tensors[f"{stem}.lora_A.weight"], tensors[f"{stem}.lora_B.weight"]
    return (weight.float() + adapter.spec.scaling * (b @ a)).to(weight.dtype)
