"""What a base model is made of, read from its config.json alone: no weight is loaded or needed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from fedse.adapters.base import linear_layers
from fedse.errors import MachineError, boundary


class ModelShape(NamedTuple):
    """The sizes that decide how much memory a model takes."""

    architecture: str
    parameters: int
    """A table shared by input and output counts once."""
    layers: int
    hidden: int
    inner: int
    """Width of the feed-forward part."""
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    linear: Mapping[str, tuple[int, int]]
    """The layers that can have an adapter, with rows and columns."""

    def adapter_size(self, rank: int) -> int:
        """Parameters of an adapter on all linear layers: rank x (rows + columns) of each."""
        return sum(rank * (rows + columns) for rows, columns in self.linear.values())


def read_shape(path: Path) -> ModelShape:
    """The shape of the model that config.json in `path` describes."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    hint = "fedse model show needs a causal language model that transformers has a class for"
    with boundary(MachineError, f"config.json in {path}", hint=hint):
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        # Tensors on this device have a shape but no storage.
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        text = config.get_text_config()
        heads = text.num_attention_heads
        return ModelShape(
            architecture=type(model).__name__,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            inner=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_size=getattr(text, "head_dim", None) or text.hidden_size // heads,
            vocabulary=text.vocab_size,
            linear=linear_layers({n: tuple(p.shape) for n, p in model.named_parameters()}),
        )
