"""Load the frozen base model once per process; everything that needs its weights starts here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from fedse.agent.prompt import Encoder
from fedse.agent.tokens import load_tokenizer
from fedse.errors import MachineError, boundary


class Base(NamedTuple):
    """The model as it was published, its tokenizer, and the encoder made from it."""

    model: Any
    tokenizer: Any
    encoder: Encoder


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


@lru_cache(maxsize=2)
def load_base(path: Path) -> Base:
    """The base model in float32 from a local folder; no hub is asked."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with boundary(MachineError, f"base model {path}"):
        tokenizer = load_tokenizer(path)
        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(
                path, local_files_only=True, dtype=torch.float32
            )
    model.requires_grad_(False).eval()
    return Base(model, tokenizer, Encoder(tokenizer))
