"""An adapter as a plain PEFT folder that other tools load: no pickle, no local path, mode 0644."""

import json
from pathlib import Path

from fedse.errors import StoreError, boundary
from fedse.types import Adapter

CARD = """---
library_name: peft
base_model: {base}
base_model_relation: adapter
---
LoRA adapter (rank {rank}, alpha {alpha:g}) for `{base}`, made by Fed-SE.

- adapter sha256 `{digest}`
- base model digest `{base_digest}`

Load it with `peft.PeftModel.from_pretrained(model, "<this folder>")`.
"""


WEIGHTS = "adapter_model.safetensors"
ELSEWHERE = "choose a place where you may write"


def export_adapter(adapter: Adapter, folder: Path) -> Path:
    """`folder` holds the adapter as PEFT would save it, byte for byte the same every time."""
    spec = adapter.spec
    config = {
        "base_model_name_or_path": spec.base,
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": spec.alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": spec.rank,
        "target_modules": sorted(spec.target_modules),
        "task_type": "CAUSAL_LM",
    }
    card = CARD.format(
        base=spec.base,
        rank=spec.rank,
        alpha=spec.alpha,
        digest=adapter.digest,
        base_digest=spec.base_digest,
    )
    files: dict[str, str | bytes] = {
        "adapter_config.json": json.dumps(config, indent=2, sort_keys=True) + "\n",
        "README.md": card,
        WEIGHTS: adapter.to_bytes(),
    }
    with boundary(StoreError, f"{folder} cannot be written", hint=ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _write(folder / name, content)
    return folder


def export_whole(adapter: Adapter, folder: Path) -> None:
    """`folder` is new and holds the adapter; it appears only when it is complete."""
    beside = folder.with_name(f".{folder.name}")
    export_adapter(adapter, beside)
    with boundary(StoreError, f"{folder} cannot be written", hint=ELSEWHERE):
        beside.rename(folder)


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o644)
