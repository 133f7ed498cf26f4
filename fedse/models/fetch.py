"""Bring a base model onto this machine: made from a published GGUF file, or from a hub."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import base_digest, base_path, has_weights
from fedse.adapters.hub import UNWANTED, WANTED, HubModel, hub_cache, is_offline
from fedse.adapters.recipes import ModelRecipe
from fedse.errors import MachineError, boundary, require_packages
from fedse.models.gguf_file import Tell, sha256_of
from fedse.store.files import new_folder

Find = Callable[[ModelRecipe, Path], Path]
"""(recipe, scratch folder) -> its GGUF file, verified."""
Convert = Callable[[Path, Path], None]
"""(GGUF file, empty folder): the folder then holds the model."""


class Arrival(NamedTuple):
    """A model that is on this machine now."""

    path: Path
    digest: str
    fetched: bool
    """False if it was already here."""
    files: tuple[str, ...]
    nbytes: int
    note: str = ""


OTHER_VERSION = (
    "the weights are right, but the tokenizer or settings differ from those that "
    "transformers 5.22.2 writes; all sites need the same digest, so copy one site's folder"
)


def get_converted(
    recipe: ModelRecipe, target: Path, *, tell: Tell, find: Find, convert: Convert
) -> Arrival:
    """`target` is a Hugging Face folder with the recipe's model, complete and verified."""
    if target.exists():
        return _verified(recipe, target, fetched=False)
    with boundary(MachineError, f"{target} cannot be made"), new_folder(target) as folder:
        with tempfile.TemporaryDirectory(prefix="fedse-model-") as scratch:
            gguf = find(recipe, Path(scratch))
            tell("converting to bfloat16: about half a minute of one core, more for larger models")
            convert(gguf, folder)
        (folder / "README.md").write_text(recipe.about)
        _verified(recipe, folder, fetched=True)
    return _verified(recipe, target, fetched=True)


def get_hub_model(model: HubModel, environ: Mapping[str, str], *, tell: Tell) -> Arrival:
    """A model from a hub is in huggingface_hub's cache: safetensors, tokenizer and settings."""
    try:
        return _measured(base_path(str(model), environ), fetched=False)
    except MachineError:
        # Not here, or not all of it.
        require_packages(f"the hub model {model}", "huggingface_hub", extra="models")
    if is_offline(environ):
        raise MachineError(
            f"{model} is not in {hub_cache(environ)}, and HF_HUB_OFFLINE prevents downloading it",
            hint=f"HF_HUB_OFFLINE=0 fedse model get {model}",
        )
    from huggingface_hub import snapshot_download

    again = "check the name, the revision, the connection, and for gated models `hf auth login`"
    tell(f"fetching {model} into {hub_cache(environ)}")
    with boundary(MachineError, f"fetch {model}", hint=again):
        snapshot_download(
            model.repository,
            revision=model.revision,
            cache_dir=hub_cache(environ),
            allow_patterns=[*WANTED],
            ignore_patterns=[*UNWANTED],
        )
    path = base_path(str(model), environ)
    if not has_weights(path):
        raise MachineError(
            f"{model} has no *.safetensors, and other weight formats are not fetched",
            hint="choose a revision or a model with safetensors",
        )
    return _measured(path, fetched=True)


def _verified(recipe: ModelRecipe, folder: Path, *, fetched: bool) -> Arrival:
    """Refused unless the weights are the recipe's; a difference in other files is noted."""
    weights = folder / "model.safetensors"
    found = sha256_of(weights) if weights.is_file() else "no such file"
    if found != recipe.weights:
        raise MachineError(
            f"sha256 of {weights}: expected {recipe.weights}, got {found}",
            hint="install the versions in .ci/constraints.txt of the source, then get it again"
            if fetched
            else f"move {folder} away, then get it again",
        )
    arrival = _measured(folder, fetched=fetched)
    return arrival._replace(note="" if arrival.digest == recipe.digest else OTHER_VERSION)


def _measured(path: Path, *, fetched: bool) -> Arrival:
    files = sorted(file for file in path.iterdir() if file.is_file())
    size = sum(file.stat().st_size for file in files)
    names = tuple(file.name for file in files)
    return Arrival(path, base_digest(path), fetched, names, size)
