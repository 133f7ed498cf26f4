"""What an environment is: text in, text out, a fixed task list, an explicit success flag.

Any class with these members is an environment; nothing is inherited. One instance plays one
episode at a time, so a rollout makes one instance per open episode.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fedse import plugins
from fedse.errors import ConfigError, EnvError, boundary
from fedse.plugins import load_plugin, plugin_names
from fedse.types import Split, Task


class Step(NamedTuple):
    """What the environment answers to `reset` and to every action."""

    observation: str
    reward: float = 0.0
    done: bool = False
    success: bool = False
    """May be true only when `done` is."""


@runtime_checkable
class Env(Protocol):
    """A private world: tasks in two disjoint splits, episodes that depend on (task, seed) alone."""

    name: str
    system_prompt: str
    max_turns: int

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split, always the same ones in the same order."""
        ...

    def reset(self, task: Task, *, seed: int) -> Step:
        """Start the episode; nothing of an earlier episode remains."""
        ...

    def step(self, action: str) -> Step:
        """Apply one action. Text that is no valid action is answered, never raised."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ExpertEnv(Env, Protocol):
    """An environment that can also show how it is done."""

    def actions(self) -> Sequence[str]:
        """Some well-formed actions in the current state; what a random player chooses from."""
        ...

    def expert(self) -> str:
        """The action a competent player takes in the current state."""
        ...


EnvFactory = Callable[[], Env]

# Imported on first use, so that listing environments costs nothing.
BUILT_IN: Mapping[str, str] = {
    "babyai": "fedse.envs.babyai.env:BabyAI",
    "maze": "fedse.envs.maze.env:Maze",
    "textcraft": "fedse.envs.textcraft.env:TextCraft",
    "webshop": "fedse.envs.webshop.env:WebShop",
    "wordle": "fedse.envs.wordle.env:Wordle",
}


def env_names() -> tuple[str, ...]:
    """Every environment that can be made here, the installed third-party ones included."""
    return tuple(sorted({*BUILT_IN, *plugin_names(plugins.ENVS)}))


def make_env(name: str, options: Mapping[str, Any] | None = None) -> Env:
    """A fresh instance of environment `name`; `module:Class` names one that is not registered."""
    with boundary(EnvError, f"environment {name!r}"):
        made = _env_class(name)(**(options or {}))
    if not isinstance(made, Env):
        raise EnvError(
            f"environment {name!r}: {type(made).__name__} lacks members of fedse.Env",
            hint=f"fedse env check {name}",
        )
    return made


def _env_class(name: str) -> Callable[..., Any]:
    if ":" in name or name in BUILT_IN:
        module, _, attribute = BUILT_IN.get(name, name).partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found
    if name in plugin_names(plugins.ENVS):
        loaded: Callable[..., Any] = load_plugin(plugins.ENVS, name)
        return loaded
    raise ConfigError(
        f"environment {name!r} is unknown; known are {', '.join(env_names())}",
        hint="fedse env list",
    )
