"""Models of a hub, named `owner/name@revision`: how they are written and where they lie here.

Only the cache of huggingface_hub is looked at; no hub is asked.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.errors import ConfigError, MachineError, boundary, require_packages

# What a model needs. Never pickles and code: both can run anything where they are loaded.
WANTED = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model", "README.md", "LICENSE*")
# Folders and `consolidated` files hold the same weights again in other forms.
UNWANTED = ("*/*", "consolidated*")
BRANCHES = ("main", "master", "HEAD")
NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w.-]*))?", re.ASCII)


class HubModel(NamedTuple):
    repository: str
    """`owner/name`."""
    revision: str
    """A commit of 40 hex digits, or a tag."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}"


def hub_model(name: str) -> HubModel | None:
    """The model that `owner/name@revision` names; None where `name` has another form."""
    found = NAME.fullmatch(name)
    if not found or not found[2]:
        return None
    if found[2] in BRANCHES:
        raise ConfigError(
            f"{name!r}: {found[2]} is a branch, so it can be another model tomorrow",
            hint=how_to_pin(found[1]),
        )
    return HubModel(found[1], found[2])


def is_unpinned(name: str) -> bool:
    """Whether `name` is `owner/name` and could be a model of a hub."""
    found = NAME.fullmatch(name)
    return found is not None and not found[2]


def how_to_pin(repository: str) -> str:
    return (
        f"write {repository}@REVISION, with the 40 hex digits of a commit (the hub lists them "
        "under the files of the model) or a tag"
    )


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps what it fetched, by its own environment variables."""
    if chosen := environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    shared = Path(environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(environ.get("HF_HOME") or shared).expanduser() / "hub"


def is_offline(environ: Mapping[str, str]) -> bool:
    """Whether the user's environment forbids asking a hub."""
    return environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def cached_model(model: HubModel, cache: Path) -> Path:
    """The folder of a model that was fetched before, with all its files."""
    get = f"fedse model get {model}"
    require_packages(f"the hub model {model}", "huggingface_hub", extra="models")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        with boundary(MachineError, f"cache of {model} in {cache}", hint=get):
            found = snapshot_download(
                model.repository,
                revision=model.revision,
                cache_dir=cache,
                local_files_only=True,
                allow_patterns=[*WANTED],
                ignore_patterns=[*UNWANTED],
            )
    except MachineError as error:
        if isinstance(error.__cause__, LocalEntryNotFoundError):
            raise MachineError(f"{model} is not in {cache}, or not all of it", hint=get) from error
        raise
    return Path(found)
