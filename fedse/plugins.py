"""Variants of a step by name: the built-in ones, and those that installed packages add.

A package adds one with an entry point of the group, as in its pyproject.toml:

    [project.entry-points."fedse.aggregates"]
    trimmed = "my_package.merging:trimmed_mean"

Without a package, `module:name` names any variant that can be imported.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, TypeVar

from fedse.errors import ConfigError, MachineError, boundary, is_installed, require_packages
from fedse.suggest import closest

T = TypeVar("T")

ENVS, AGGREGATES, SELECTS = "fedse.envs", "fedse.aggregates", "fedse.selects"
LOSSES, TRACKERS = "fedse.losses", "fedse.trackers"
COMMANDS, DEMOS, EXPORTS = "fedse.commands", "fedse.demos", "fedse.exports"
SEALED = "fedse.sealed"
"""Functions from a site's folder to the files there that are under the key of its buffer."""

PACKAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    ENVS: {
        "fed-se-agents": ("program",),
        "fed-se-bridges": ("agentgym", "gymnasium", "mcp", "openenv"),
        "fed-se-bridges[reasoning]": ("reasoning-gym",),
        "fed-se-serve": ("service",),
        "fed-se-textworld": ("textworld",),
        "fed-se-worlds": ("babyai", "textcraft", "webshop"),
    },
    COMMANDS: {"fed-se-reproduce": ("reproduce", "sweep"), "fed-se-serve": ("serve",)},
    DEMOS: {"fed-se-serve": ("live",)},
    EXPORTS: {"fed-se-inspect": ("inspect",)},
    SEALED: {"fed-se-serve": ("service",)},
    TRACKERS: {
        f"fed-se-trackers[{name}]": (name,)
        for name in ("mlflow", "tensorboard", "trackio", "wandb")
    },
    AGGREGATES: {"fed-se-variants": ("adam", "fedexp", "nesterov", "product")},
    LOSSES: {"fed-se-variants": ("dpo", "grpo", "in-turn", "kto", "ranks")},
    SELECTS: {"fed-se-variants": ("frontier", "hindsight")},
}
"""Group -> package of this project -> the names it adds; named in the error where it is missing."""


def plugin_names(group: str) -> tuple[str, ...]:
    """What installed packages add to `group`, in order of name; none of it is imported."""
    return tuple(sorted({entry.name for entry in _added(group)}))


def _added(group: str, name: str | None = None) -> list[EntryPoint]:
    """The entry points of installed packages in `group`, or those of them with that name."""
    found = _entry_points(tuple((place, _changed(place)) for place in sys.path), group)
    return [entry for entry in found if name in (None, entry.name)]


@lru_cache(maxsize=16)
def _entry_points(places: tuple[tuple[str, int], ...], group: str) -> EntryPoints:
    """Kept until a folder that packages are imported from changes: to read those of all installed
    packages takes some 20 ms, and every environment that is made asks for them."""
    return entry_points(group=group)


def _changed(place: str) -> int:
    """When something was last added to a folder or removed from it; 0 = there is none."""
    path = Path(place or ".")
    return path.stat().st_mtime_ns if path.exists() else 0


def load_plugin(group: str, name: str) -> Any:
    """What an installed package offers under `name`; a package that cannot be imported is named."""
    for entry in _added(group, name):
        with boundary(MachineError, f"plugin {name!r} of {group} ({entry.value})"):
            try:
                return entry.load()
            except ModuleNotFoundError as error:
                lacking = str(error.name).partition(".")[0]
                if package := packaged(group).get(name):
                    require_packages(f"{name!r} of {group}", lacking, extra=package)
                raise
    raise KeyError(name)


def require_plugin(what: str, group: str, name: str) -> None:
    """What adds `name`, which `what` needs, is installed, if it is a package of this project."""
    if package := packaged(group).get(name):
        require_packages(what, module_of(package), extra=package)


def packaged(group: str) -> dict[str, str]:
    """Every name that a package of this project adds to `group`, and that package."""
    return {name: package for package, names in PACKAGES.get(group, {}).items() for name in names}


def missing_packages(group: str) -> dict[str, tuple[str, ...]]:
    """The packages of this project that would add something to `group`, with what they add."""
    of_project = PACKAGES.get(group, {}).items()
    return {package: names for package, names in of_project if not is_installed(module_of(package))}


def module_of(package: str) -> str:
    """What a package of this project is imported as."""
    return package.partition("[")[0].replace("fed-se-", "fedse_")


def plugin_version(group: str, name: str) -> str | None:
    """The version of the installed package that adds `name`."""
    found = [entry.dist for entry in _added(group, name)]
    return found[0].version if found and found[0] else None


def load_variant(group: str, name: str) -> Any:
    """What `module:name` stands for, or what an installed package offers under `name`."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return load_plugin(group, name)
    with boundary(ConfigError, f"{name!r} of {group}", hint="expected module:name"):
        return getattr(import_module(module), attribute)


class Variants(Mapping[str, T]):
    """The variants of one step; a built-in name cannot be taken by a plugin."""

    def __init__(self, group: str, built_in: Mapping[str, T]) -> None:
        self._group, self._built_in = group, dict(built_in)

    def __getitem__(self, name: str) -> T:
        if name in self._built_in:
            return self._built_in[name]
        try:
            variant: T = load_variant(self._group, name)
        except KeyError:
            package = packaged(self._group).get(name)
            raise ConfigError(
                f"{self._group}: {unknown(name, self)}",
                hint=f"pip install {package}" if package else "install the package that adds it",
            ) from None
        return variant

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in plugin_names(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._built_in, *plugin_names(self._group)]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def unknown(name: str, choices: Mapping[str, object] | tuple[str, ...]) -> str:
    """Says that `name` is none of `choices`, and which was probably meant."""
    near = closest(name, choices)
    suggestion = f", did you mean {near!r}?" if near else ""
    return f"must be one of {', '.join(map(repr, choices))}, got {name!r}{suggestion}"
