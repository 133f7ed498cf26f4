"""Adapters that a site keeps for itself and never sends, as plain PEFT folders."""

import hashlib
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.errors import StoreError, boundary
from fedse.types import Adapter, AdapterSpec

FOLDER = "own-adapters"
GLOBAL = "global"
"""The name of a copy of the federation's adapter; all others the site made itself."""


class KeptAdapter(NamedTuple):
    """An adapter and the round whose result it is, or was made from."""

    round: int
    adapter: Adapter


class OwnAdapter(NamedTuple):
    """What is in the site's folder of one adapter."""

    name: str
    round: int
    digest: str
    made: float
    """Seconds since 1970."""
    folder: Path

    @property
    def is_global(self) -> bool:
        return self.name == GLOBAL


def own_adapters(home: Path) -> list[OwnAdapter]:
    """Every adapter that is kept in the site's folder, by name."""
    return [_described(folder) for folder in sorted((home / FOLDER).glob("*/round-*"))]


def _described(folder: Path) -> OwnAdapter:
    with boundary(StoreError, f"{folder} cannot be read"):
        weights, made = (folder / WEIGHTS).read_bytes(), (folder / WEIGHTS).stat().st_mtime
    digest = hashlib.sha256(weights).hexdigest()
    return OwnAdapter(folder.parent.name, _round_of(folder), digest, made, folder)


def _round_of(folder: Path) -> int:
    return int(folder.name.removeprefix("round-"))


def keep_adapter(home: Path, name: str, round: int, adapter: Adapter) -> None:
    """`adapter` is the newest of its name in the site's folder, and the only one."""
    place = home / FOLDER / name
    folder = place / f"round-{round:03d}"
    with boundary(StoreError, f"{folder} cannot be written"):
        place.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    export_whole(adapter, folder)
    for other in place.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def kept_adapter(home: Path, name: str, spec: AdapterSpec) -> KeptAdapter | None:
    """The adapter of this name; None where none was kept."""
    folders = sorted((home / FOLDER / name).glob("round-*"))
    if not folders:
        return None
    file = folders[-1] / WEIGHTS
    with boundary(StoreError, f"{file} cannot be read", hint="it is made again by the next round"):
        data = file.read_bytes()
    if not data.startswith(spec.header) or len(data) != spec.nbytes:
        raise StoreError(
            f"{file} is damaged, or no adapter of this federation's base model and rank",
            hint=f"it is made again by the next round that measures; until then: rm {file}",
        )
    vector = np.frombuffer(data, dtype="<f4", offset=len(spec.header)).astype(np.float32)
    return KeptAdapter(_round_of(folders[-1]), Adapter(spec, vector))
