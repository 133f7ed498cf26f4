"""Runs grouped into arms: runs whose settings differ only in run.seed are seeds of one method."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.types import digest_of

NOT_THE_METHOD: dict[str, Any] = {
    "run": {"seed", "name", "workers"},
    "model": {"threads"},
    "buffer": {"keep_played"},
}
"""The settings in which two seeds of one arm may differ."""


class Arm(NamedTuple):
    """One method and its runs, by seed."""

    label: str
    config: Config
    runs: dict[int, Path]


def arms_of(paths: Sequence[Path]) -> list[Arm]:
    """The runs as arms in the order given; if all are of one arm, each run is an arm itself."""
    paths = [path.resolve() for path in paths]
    if len(paths) < 2:
        raise ConfigError(f"expected at least 2 runs, got {len(paths)}", hint="fedse runs")
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ConfigError(f"run {twice[0].name} is given twice", hint="name each run once")
    configs = {path: load_config(path / "config.resolved.toml") for path in paths}
    groups: dict[str, list[Path]] = {}
    for path, config in configs.items():
        groups.setdefault(method_digest(config), []).append(path)
    arms = list(groups.values()) if len(groups) > 1 else [[path] for path in paths]
    for arm in arms:
        _require_seeds(arm, configs)
    labels = _labels([(configs[arm[0]].run.name, [path.name for path in arm]) for arm in arms])
    return [
        Arm(label, configs[arm[0]], {configs[path].run.seed: path for path in arm})
        for label, arm in zip(labels, arms, strict=True)
    ]


def method_digest(config: Config) -> str:
    """Equal for runs that are seeds of one method."""
    return digest_of(config.model_dump(mode="json", exclude=NOT_THE_METHOD))


def differing(config: Config, reference: Config) -> dict[str, tuple[Any, Any]]:
    """The method settings that differ between the two, as `a.b`: (here, reference)."""
    here, there = (
        _flat(c.model_dump(mode="json", exclude={**NOT_THE_METHOD, "clients": True}))
        | {f"clients.{client.name}": client.model_dump(mode="json") for client in c.clients}
        for c in (config, reference)
    )
    keys = [*here, *(key for key in there if key not in here)]
    return {k: (here.get(k), there.get(k)) for k in keys if here.get(k) != there.get(k)}


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{top}.{key}": setting for top, keys in value.items() for key, setting in keys.items()}


def _require_seeds(paths: Sequence[Path], configs: Mapping[Path, Config]) -> None:
    seen: dict[int, Path] = {}
    for path in paths:
        first = seen.setdefault(configs[path].run.seed, path)
        if first != path:
            raise ConfigError(
                f"runs {first.name} and {path.name} have the same settings and the same seed"
                f" {configs[path].run.seed}, so they count as one",
                hint="name only one of them, or only these two to compare them with each other",
            )


def _labels(arms: Sequence[tuple[str, list[str]]]) -> list[str]:
    """The experiments' names if they distinguish the arms, else what the folders' names share."""
    names = [name for name, _ in arms]
    if len(set(names)) == len(names):
        return names
    shared = [_shared_start(folders) for _, folders in arms]
    return shared if len(set(shared)) == len(shared) else [folders[0] for _, folders in arms]


def _shared_start(folders: Sequence[str]) -> str:
    if len(folders) == 1:
        return folders[0]
    same = [len(set(letters)) == 1 for letters in zip(*folders, strict=False)]
    length = same.index(False) if False in same else len(same)
    start = folders[0][:length].rstrip("-_. ").removesuffix("seed").rstrip("-_. s")
    return start or folders[0]
