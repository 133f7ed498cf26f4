"""Adapters that a site keeps for itself and never sends, as plain PEFT folders."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.errors import StoreError, boundary
from fedse.types import Adapter, AdapterSpec

FOLDER = "own-adapters"


class KeptAdapter(NamedTuple):
    """An adapter and the round whose result it is, or was made from."""

    round: int
    adapter: Adapter


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
        raise StoreError(f"{file} is no adapter of this federation's base model and rank")
    vector = np.frombuffer(data, dtype="<f4", offset=len(spec.header)).astype(np.float32)
    return KeptAdapter(int(folders[-1].name.removeprefix("round-")), Adapter(spec, vector))
