"""Make, find, open and list run folders; what a run writes inside one is in run.py.

A folder is a run once it has a run.json, which is therefore written last.
"""

import hashlib
import json
import platform
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

from fedse._version import __version__
from fedse.adapters.base import spec_of
from fedse.config.agreement import Agreement, amended
from fedse.config.file import dump_config, parse_config
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.events import Observer
from fedse.store.agreements import agreements_in, base_in, holding
from fedse.store.files import from_backup, write_durably
from fedse.store.lock import is_locked, locked
from fedse.store.run import Run, committed_in
from fedse.suggest import closest
from fedse.types import Clock, Record

SCHEMA_VERSION = 1
RESOLVED = "config.resolved.toml"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PACKAGES = ("numpy", "pydantic", "torch", "transformers", "peft", "safetensors", "flwr")


class RunCard(Record):
    """run.json: what this run is and what it was made with. How far it got is in the run."""

    schema_version: int = SCHEMA_VERSION
    id: str
    created: str
    """ISO 8601, with the offset from UTC."""
    experiment: str
    seed: int
    config_digest: str
    agreed_digest: str
    spec_digest: str
    versions: dict[str, str]


def runs_root(environ: Mapping[str, str]) -> Path:
    """Where runs are kept: $FEDSE_RUNS, else the user's data folder.

    Not the current folder: a run holds what private agents saw, and the current folder may be a
    git checkout, a synced folder or a Flower app, whose bundle would ship it. Also, `fedse runs`
    then lists the same runs in every folder.
    """
    if chosen := environ.get("FEDSE_RUNS"):
        return Path(chosen).expanduser()
    data = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "fedse" / "runs"


def create_run(
    root: Path,
    config: Config,
    *,
    given: str | None = None,
    name: str | None = None,
    now: datetime | None = None,
    clock: Clock = time.time,
    observers: Sequence[Observer] = (),
) -> Run:
    """A new folder in `root`, readable by its owner only, with the config as given and complete.

    By default the complete config counts as given, and the folder is named after the time.
    """
    now = now or datetime.now()
    if name is not None and not ID.fullmatch(name):
        raise ConfigError(f"a run's name must be letters, digits, '.', '-' and '_', got {name!r}")
    spec = spec_of(config)
    path = _new_folder(root, name, f"{now:%Y%m%d-%H%M%S}-{config.run.name}")
    resolved = dump_config(config)
    card = RunCard(
        id=path.name,
        created=now.astimezone().isoformat(timespec="seconds"),
        experiment=config.run.name,
        seed=config.run.seed,
        config_digest=text_digest(resolved),
        agreed_digest=config.agreed_digest(),
        spec_digest=spec.digest,
        versions=installed_versions(),
    )
    write_durably(path / "config.toml", (resolved if given is None else given).encode())
    write_durably(path / RESOLVED, resolved.encode())
    write_durably(path / "run.json", (card.model_dump_json(indent=2) + "\n").encode())
    return Run(path, config, spec, clock=clock, observers=observers)


def open_run(path: Path, *, clock: Clock = time.time, observers: Sequence[Observer] = ()) -> Run:
    """The run in `path`, ready to go on: same settings and same base model as when it was made."""
    card = read_card(path)
    config = _config(path, card)
    spec = spec_of(config)
    if spec.digest != card.spec_digest:
        raise StoreError(
            f"run {card.id}: the base model {config.model.base!r} is not the one it was made with, "
            "as run.json has it",
            hint=f"put it back, or start a new run: fedse run {path}/config.resolved.toml",
        )
    now = _in_force(path, config)
    spec = spec if now is config else spec_of(now)
    return Run(path, now, spec, clock=clock, observers=observers)


def run_config(path: Path) -> Config:
    """The settings of the run in `path` for its next round."""
    return _in_force(path, _config(path, read_card(path)))


def newest_config(path: Path) -> Config:
    """The settings of the newest agreement, also if it holds only from a later round on."""
    config, known = run_config(path), agreements_in(path)
    return _amended(path, config, known[-1]) if known else config


def _in_force(path: Path, config: Config) -> Config:
    """The settings with the amendment that holds in the next round, if there is one."""
    known = agreements_in(path)
    terms = holding(known, committed_in(path) + 1) if known else None
    return _amended(path, config, terms) if terms else config


def _amended(path: Path, config: Config, terms: Agreement) -> Config:
    base = base_in(path, terms.number)
    return amended(config, terms, f"agreement {terms.number}", base=base)


def _config(path: Path, card: RunCard) -> Config:
    file, given = path / RESOLVED, path / "config.toml"
    hint = (
        f"undo the change; if nothing was --set: fedse config show {given} > {file}; or start a "
        f"new run: fedse run {given}"
    )
    with boundary(StoreError, f"{file}", hint=hint):
        text = file.read_text(encoding="utf-8")
    if text_digest(text) != card.config_digest:
        raise StoreError(
            f"run {card.id}: {file} was changed since the run was made, or is damaged", hint=hint
        )
    return parse_config(text, str(file))


def find_run(name: str, root: Path) -> Path:
    """The folder of a run given as a path, as an id in `root`, or as `last`."""
    runs = run_folders(root)
    if name == "last" and runs:
        return runs[-1]
    for path in (root / name, Path(name)):
        if (path / "run.json").is_file():
            return path
    near = closest(name, [path.name for path in runs])
    raise StoreError(
        f"there is no run {name!r} here or in {root}"
        + (f", did you mean {near!r}?" if near else ""),
        hint="fedse runs",
    )


def run_folders(root: Path) -> list[Path]:
    """The runs in `root`, the oldest first."""
    made = [card.parent for card in root.glob("*/run.json")]
    return sorted(made, key=lambda path: ((path / "run.json").stat().st_mtime_ns, path.name))


def read_card(path: Path) -> RunCard:
    """The run.json in `path`, of a version this program can read."""
    if not (path / "run.json").is_file():
        raise StoreError(f"{path} is not a run folder: it has no run.json", hint="fedse runs")
    with boundary(StoreError, f"{path}/run.json", hint=from_backup(path / "run.json")):
        card: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
        schema = card.get("schema_version")
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"run {path.name} has schema_version {schema}, this program reads {SCHEMA_VERSION}",
                hint=f"use the fedse that made it: {card.get('versions', {}).get('fedse', '?')}",
            )
        return RunCard.model_validate(card)


def held(path: Path) -> AbstractContextManager[None]:
    """No other process works on this run meanwhile; the lock ends with the process."""
    busy = f"run {path.name} is being worked on by another process"
    return locked(path, busy=busy, hint="wait for it or stop it, then try again")


def is_held(path: Path) -> bool:
    """Whether some process works on this run right now; leaves no trace."""
    return is_locked(path)


def installed_versions() -> dict[str, str]:
    """Versions of all that can change a result, without importing any of it."""
    versions = {"fedse": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def text_digest(text: str) -> str:
    """Digest of a file as written: a setting added later, with its default, changes nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


def _new_folder(root: Path, name: str | None, stem: str) -> Path:
    elsewhere = "choose a folder you may write to: --out FOLDER, or export FEDSE_RUNS=FOLDER"
    with boundary(StoreError, f"no run folder can be made in {root}", hint=elsewhere):
        root.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = root / (name or (stem if number == 1 else f"{stem}-{number}"))
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                if name is not None:
                    raise ConfigError(
                        f"there is already a run {path}",
                        hint=f"fedse resume {path}, or choose another --name",
                    ) from None
            else:
                return path
    raise AssertionError("count() never ends")
