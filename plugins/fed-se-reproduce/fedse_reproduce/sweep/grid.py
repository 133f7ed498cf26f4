"""Which cells a sweep has, and which experiments they are, from what was typed."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from fedse.config.file import parse_config
from fedse.config.methods import apply_method, method_named
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse_reproduce.tables import Job

METHOD = "method"
"""The axis that is no setting."""
WHOLE = "as in the file"

Axes = Mapping[str, tuple[str, ...]]
"""Dotted setting, or METHOD -> its values as they were typed."""


class Cell(NamedTuple):
    """One combination of values; a row of the table."""

    values: Mapping[str, str]

    @property
    def label(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items()) or WHOLE

    @property
    def settings(self) -> list[str]:
        """As `--set` takes them."""
        return [f"{key}={value}" for key, value in self.values.items() if key != METHOD]


def axes_of(grid: Sequence[str], methods: str | None) -> Axes:
    """The axes in the order they were given, the methods first."""
    axes: dict[str, tuple[str, ...]] = {METHOD: _values(METHOD, methods)} if methods else {}
    for name in axes.get(METHOD, ()):
        method_named(name)
    for given in grid:
        key, equals, values = given.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"--grid must look like train.lr=1e-4,2e-4, got {given!r}")
        if key == "run.seed":
            raise ConfigError("--grid run.seed: seeds are no cells", hint="--seeds 0-4")
        if key in axes:
            raise ConfigError(f"--grid {key} is given twice", hint=f"--grid {key}=A,B,C")
        axes[key] = _values(key, values)
    return axes


def _values(key: str, given: str) -> tuple[str, ...]:
    """Separated by commas; a comma inside quotes or brackets separates nothing."""
    parts = re.findall(r"""(?:[^,"'\[{]|"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\})+""", given)
    values = tuple(part.strip() for part in parts)
    if not parts or not all(values) or ",".join(parts) != given:
        raise ConfigError(f"{key} must have values separated by commas, got {given!r}")
    if twice := [value for value in values if values.count(value) > 1]:
        raise ConfigError(f"{key} has the value {twice[0]} twice, got {given!r}")
    return values


def cells_of(axes: Axes) -> list[Cell]:
    """Every combination; the last axis changes fastest."""
    return [Cell(dict(zip(axes, values, strict=True))) for values in product(*axes.values())]


def seeds_of(given: str) -> tuple[int, ...]:
    """`0-4` is 0 to 4, `0,3,7` these three."""
    seeds: list[int] = []
    for part in given.split(","):
        ends = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if last < first:
            raise ConfigError(f"--seeds must look like 0-4 or 0,3,7, got {given!r}")
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def jobs_of_cells(
    text: str, source: str, cells: Sequence[Cell], seeds: Sequence[int], changed: Sequence[str] = ()
) -> list[Job]:
    """All experiments, seed by seed; `changed`: settings of every cell, as `--set` takes them.

    Each takes one process, so its CPU seconds are those of that process.
    """
    return [
        Job(cell.label, seed, config)
        for seed in seeds
        for cell in cells
        for config in _configs(text, source, cell, [*changed, f"run.seed={seed}", "run.workers=1"])
    ]


def _configs(text: str, source: str, cell: Cell, changed: Sequence[str]) -> list[Config]:
    """One experiment, or one per client where the method has each work alone."""
    config = parse_config(text, source, [*cell.settings, *changed])
    if not config.eval.episodes:
        raise ConfigError(
            f"{source} measures nothing (eval.episodes = 0), so there is nothing to compare",
            hint="--set eval.episodes=50",
        )
    return apply_method(config, cell.values[METHOD]) if METHOD in cell.values else [config]
