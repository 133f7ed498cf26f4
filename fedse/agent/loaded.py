"""The frozen base model: one copy per process, for all that generates and all that trains.

Whoever generates has an adapter merged into the weights; whoever trains has them as published. What
a merge overwrites is read again from the model's files, so no second copy stays in memory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.utils import logging

from fedse.agent.prompt import Encoder
from fedse.agent.tokens import load_tokenizer
from fedse.errors import MachineError, boundary, require_packages
from fedse.types import Adapter

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Base:
    """A base model with its tokenizer and encoder; the weights are as published, or merged."""

    def __init__(self, path: Path, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer, self.encoder = model, tokenizer, Encoder(tokenizer)
        self.adapted: Any = None
        """PEFT's model around `model`, once somebody trains; it holds the same weights."""
        self._path, self._files = path, _files_of_weights(path)
        # PEFT renames the layers that it wraps, the parameters stay the same objects.
        self._weights: dict[str, Any] = dict(model.named_parameters())
        self._merged: tuple[str, float] | None = None
        self._overwritten: set[str] = set()

    def merge(self, adapter: Adapter) -> None:
        """The model computes with W + scaling * B A, always from the published W."""
        merged = adapter.digest, adapter.spec.scaling
        if self._merged == merged:
            return
        if self.adapted is not None:
            self.adapted.base_model.disable_adapter_layers()
        self._write(adapter)
        self._merged = merged

    def restore(self) -> None:
        """The weights are as published, and PEFT's layers, if any, compute again."""
        if self._overwritten:
            self._write(None)
        if self.adapted is not None:
            self.adapted.base_model.enable_adapter_layers()

    @torch.no_grad()
    def _write(self, adapter: Adapter | None) -> None:
        factors = {} if adapter is None else _factors(adapter)
        scaling = 0.0 if adapter is None else adapter.spec.scaling
        self._merged = None
        # Also what an adapter of other layers has left; all of it again if this ends half-way.
        self._overwritten |= factors.keys()
        for name in sorted(self._overwritten):
            weight = self._weights[name]
            values = self._published(name).to(device=weight.device, dtype=weight.dtype)
            if name in factors:
                a, b = (factor.to(weight.device) for factor in factors[name])
                values = values.float() + scaling * (b @ a)
            weight.copy_(values)
        self._overwritten = set(factors)

    def _published(self, name: str) -> Tensor:
        """A weight as it is in the model's files."""
        file = self._files.get(name)
        if file is None:
            raise MachineError(f"base model {self._path}: its *.safetensors have no {name!r}")
        # Opened for each weight, or the pages of all of them would stay mapped.
        with boundary(MachineError, f"{name} in {file}"), safe_open(file, "pt") as tensors:
            published: Tensor = tensors.get_tensor(name)
            return published


def _files_of_weights(path: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for file in sorted(path.glob("*.safetensors")):
        with boundary(MachineError, f"header of {file}"), safe_open(file, "pt") as tensors:
            files |= dict.fromkeys(tensors.keys(), file)
    return files


def _factors(adapter: Adapter) -> dict[str, tuple[Tensor, Tensor]]:
    """Name of a weight -> A and B."""
    tensors = {name: torch.from_numpy(t.copy()) for name, t in adapter.tensors().items()}
    stems = {name.rpartition(".lora_")[0] for name in tensors}
    return {
        stem.removeprefix("base_model.model.") + ".weight": (
            tensors[f"{stem}.lora_A.weight"],
            tensors[f"{stem}.lora_B.weight"],
        )
        for stem in stems
    }


def prepare_torch(threads: int) -> None:
    """Torch computes with exactly this many threads, so the same seed gives the same bits."""
    torch.set_num_threads(threads)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """No bar is drawn for loading a small file; afterwards the user's own setting holds again."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def load_base(path: Path, *, device: str = "cpu", precision: str = "float32") -> Base:
    """The base model from a local folder, the same object for everybody; no hub is asked."""
    return _load(path, device, precision)


@lru_cache(maxsize=1)
def _load(path: Path, device: str, precision: str) -> Base:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with boundary(MachineError, f"base model {path}"):
        tokenizer = load_tokenizer(path)
        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(
                path, local_files_only=True, **_format(device, precision)
            )
            if precision in PRECISIONS:
                model.to(device)
    model.requires_grad_(False).eval()
    return Base(path, model, tokenizer)


def _format(device: str, precision: str) -> dict[str, Any]:
    if precision in PRECISIONS:
        return {"dtype": PRECISIONS[precision]}
    require_packages("trainer.precision = '4bit'", "bitsandbytes", extra="4bit")
    # As QLoRA: NormalFloat4, constants quantised too, products in bfloat16.
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {
        "dtype": torch.bfloat16,
        "quantization_config": quantized,
        "device_map": {"": device},
    }
