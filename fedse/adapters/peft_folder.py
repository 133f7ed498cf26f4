"""An adapter as a plain PEFT folder that other tools load: no pickle, no local path, mode 0644."""

import json
from pathlib import Path

from fedse.adapters.hub import hub_model
from fedse.blocks import block_adapter
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


OF_ROLES = """
The agent has several roles: each of the folders {blocks} is an adapter of its own, which PEFT
loads, for the role or roles it is named after.
"""
WEIGHTS = "adapter_model.safetensors"
ELSEWHERE = "choose a place where you may write"
VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The maximum LoRA ranks that vLLM accepts."""


def export_adapter(adapter: Adapter, folder: Path, *, card: str | None = None) -> Path:
    """`folder` holds the adapter as PEFT would save it, byte for byte the same every time; of an
    adapter of several blocks each is in a folder of its own.

    `card` is its README; by default it contains only what follows from the adapter itself.
    """
    _export(adapter, folder, None, card)
    return folder


def _export(adapter: Adapter, folder: Path, same: Path | None, card: str | None = None) -> None:
    spec, hub = adapter.spec, hub_model(adapter.spec.base)
    config = {
        "base_model_name_or_path": hub.repository if hub else spec.base,
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": spec.alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": spec.rank,
        **({"revision": hub.revision} if hub else {}),
        "target_modules": sorted(spec.target_modules),
        "task_type": "CAUSAL_LM",
    }
    card = card or CARD.format(
        base=hub.repository if hub else spec.base,
        rank=spec.rank,
        alpha=spec.alpha,
        digest=adapter.digest,
        base_digest=spec.base_digest,
    )
    if spec.blocks:
        card += OF_ROLES.format(blocks=", ".join(spec.blocks))
    files: dict[str, str | bytes] = {"README.md": card}
    if not spec.blocks:
        files["adapter_config.json"] = json.dumps(config, indent=2, sort_keys=True) + "\n"
    with boundary(StoreError, f"{folder} cannot be written", hint=ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        if same is None or not linked(same, folder / WEIGHTS):
            files[WEIGHTS] = adapter.to_bytes()
        for name, content in files.items():
            _write(folder / name, content)
    for block in spec.blocks:
        _export(block_adapter(adapter, block), folder / block, None)


def export_whole(adapter: Adapter, folder: Path, *, same: Path | None = None) -> None:
    """`folder` is new and holds the adapter; it appears only when it is complete.

    `same` is a file with the weights' very bytes; where the file system can, they share the disk.
    """
    beside = folder.with_name(f".{folder.name}")
    _export(adapter, beside, same)
    with boundary(StoreError, f"{folder} cannot be written", hint=ELSEWHERE):
        beside.rename(folder)


def linked(same: Path, path: Path) -> bool:
    """Whether `path` is another name of the file `same`; False = this disk has no such links."""
    beside = path.with_name(f".{path.name}.link")
    try:
        beside.unlink(missing_ok=True)
        beside.hardlink_to(same)
        # A file that was there is replaced as a whole. Of two names of one file none goes away.
        beside.replace(path)
        beside.unlink(missing_ok=True)
    except OSError:
        return False
    path.chmod(0o644)
    return True


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o644)


def vllm_rank(rank: int) -> int:
    """What `--max-lora-rank` of a vLLM server must be for adapters of this rank."""
    return next((one for one in VLLM_RANKS if one >= rank), rank)
