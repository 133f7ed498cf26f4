"""The tokenizer of a base model, without the model."""

import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from fedse.agent.prompt import Encoder
from fedse.errors import MachineError, boundary


def load_tokenizer(path: Path) -> Any:
    """The tokenizer in a local folder; no hub is asked."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with boundary(MachineError, f"tokenizer of the base model {path}"):
        return AutoTokenizer.from_pretrained(path, local_files_only=True)


def load_encoder(path: Path) -> Encoder:
    """Dialogues to tokens, as the model in `path` reads them."""
    return Encoder(load_tokenizer(path))
