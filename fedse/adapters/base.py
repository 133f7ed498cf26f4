"""The frozen model all members share: where it is, its digest, and the adapter spec it implies.

Reads headers and bytes only, so a server needs no torch.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedse.adapters.hub import cached_model, how_to_pin, hub_cache, hub_model, is_unpinned
from fedse.adapters.recipes import RECIPES
from fedse.blocks import bare_name, in_blocks
from fedse.config.schema import Config
from fedse.errors import MachineError, boundary
from fedse.seeds import seed_of
from fedse.types import Adapter, AdapterSpec, TensorSpec

# The bases shipped with the package: for maze and wordle, and for all five environments.
SHIPPED = {
    "tiny": Path(__file__).parents[1] / "tiny",
    "tiny-five": Path(__file__).parents[1] / "tiny_five",
}
# What `fedse model get` makes by these names in the folder `models_root` names.
FETCHED = tuple(RECIPES)
# What decides how the model computes; a README beside the weights does not.
IDENTITY = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def models_root(environ: Mapping[str, str]) -> Path:
    """Where `fedse model get` puts models: $FEDSE_MODELS, else the user's data folder."""
    if chosen := environ.get("FEDSE_MODELS"):
        return Path(chosen).expanduser()
    data = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "fedse" / "models"


def is_name(base: str) -> bool:
    """Whether `base` means the same on every machine; otherwise it is a folder of this one."""
    return base in SHIPPED or base in FETCHED or hub_model(base) is not None


def base_path(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the base model, wherever it lies on this machine; nothing is downloaded."""
    if model := hub_model(name):
        return _with_config(name, cached_model(model, hub_cache(environ)), get=True)
    if name in FETCHED:
        return _with_config(name, models_root(environ) / name, get=True)
    return _with_config(name, SHIPPED.get(name) or Path(name).expanduser())


def _with_config(name: str, path: Path, *, get: bool = False) -> Path:
    if (path / "config.json").is_file():
        return path
    folder = "set model.base to a folder with a Hugging Face model, or to one of " + ", ".join(
        (*SHIPPED, *FETCHED)
    )
    hint = f"fedse model get {name}" if get else folder
    if is_unpinned(name) and not path.exists():
        hint = f"{how_to_pin(name)}, if you mean a model of a hub; else {folder}"
    raise MachineError(f"model.base = {name!r}: no config.json in {path}", hint=hint)


@lru_cache(maxsize=8)
def base_digest(path: Path) -> str:
    """One digest over the weights and all that decides how they are used."""
    files = [path / name for name in IDENTITY if (path / name).is_file()]
    lines = []
    for file in [*files, *_weight_files(path)]:
        with file.open("rb") as handle:
            lines.append(f"{file.name} {hashlib.file_digest(handle, 'sha256').hexdigest()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def adapter_spec(name: str, *, rank: int, alpha: float, targets: Sequence[str]) -> AdapterSpec:
    """The spec of a LoRA adapter on the linear layers of the base whose names end in `targets`."""
    path = base_path(name)
    linear = linear_layers(weight_shapes(path))
    suffixes = sorted(
        {module.rpartition(".")[2] for module in linear}
        if tuple(targets) == ("all-linear",)
        else set(targets)
    )
    chosen = {
        module: shape for module, shape in linear.items() if module.rpartition(".")[2] in suffixes
    }
    if not chosen:
        raise MachineError(f"model.targets = {list(targets)}: no such linear layer in {path}")
    tensors = []
    for module, (rows, columns) in chosen.items():
        stem = f"base_model.model.{module}"
        tensors.append(TensorSpec(name=f"{stem}.lora_A.weight", shape=(rank, columns)))
        tensors.append(TensorSpec(name=f"{stem}.lora_B.weight", shape=(rows, rank)))
    return AdapterSpec(
        base=name if is_name(name) else path.name,
        base_digest=base_digest(path),
        rank=rank,
        alpha=alpha,
        target_modules=tuple(suffixes),
        tensors=tuple(sorted(tensors, key=lambda tensor: tensor.name)),
    )


def spec_of(config: Config) -> AdapterSpec:
    """The adapter spec this experiment's model section implies."""
    model = config.model
    spec = adapter_spec(model.base, rank=model.rank, alpha=model.alpha, targets=model.targets)
    return in_blocks(spec, config.roles.blocks)


def initial_adapter(spec: AdapterSpec, *, seed: int) -> Adapter:
    """LoRA's own start: A uniform in +-1/sqrt(inputs), B zero, so the model is the base's. All
    blocks start alike."""
    vector = np.zeros(spec.size, dtype=np.float32)
    for tensor in spec.tensors:
        if ".lora_A." in tensor.name:
            bound = tensor.shape[1] ** -0.5
            random = np.random.default_rng(seed_of(seed, "initial", bare_name(spec, tensor.name)))
            values = random.uniform(-bound, bound, tensor.shape).astype(np.float32)
            vector[spec.slices[tensor.name]] = values.reshape(-1)
    return Adapter(spec, vector)


def linear_layers(shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, int]]:
    """The layers among these tensors that can have an adapter, with their rows and columns."""
    layers: dict[str, tuple[int, int]] = {}
    for name, shape in shapes.items():
        module, _, kind = name.rpartition(".")
        is_table = module.endswith(("embed_tokens", "lm_head", "wte", "wpe", "embed_out"))
        if kind == "weight" and len(shape) == 2 and not is_table:
            layers[module] = (shape[0], shape[1])
    return layers


def weight_shapes(path: Path) -> dict[str, Sequence[int]]:
    """Every tensor in the weight files of a folder and its shape."""
    files = _weight_files(path)
    return {name: shape for file in files for name, shape in _tensor_shapes(file).items()}


def has_weights(path: Path) -> bool:
    """Whether a folder has more than the description of a model."""
    return any(path.glob("*.safetensors"))


def _tensor_shapes(file: Path) -> Mapping[str, list[int]]:
    with boundary(MachineError, f"header of {file}"), file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        header = json.loads(handle.read(length))
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def _weight_files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise MachineError(f"no *.safetensors in {path}", hint="save the model as safetensors")
    return files
