"""The environment interface: text in, text out, a fixed task list, an explicit success flag.

Any class with these members is an environment; nothing is inherited. One instance plays one
episode at a time, so a rollout makes one instance per open episode.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from fedse import plugins
from fedse.agent.policy import Beat
from fedse.agent.prompt import Encoder
from fedse.errors import ConfigError, EnvError, boundary
from fedse.plugins import load_plugin, packaged, plugin_names, require_plugin
from fedse.suggest import did_you_mean
from fedse.types import Split, Task, Trajectory


class Step(NamedTuple):
    """The environment's answer to `reset` and to every action."""

    observation: str
    reward: float = 0.0
    done: bool = False
    success: bool = False
    """May be true only when `done` is."""
    valid: bool = True
    """False = the text contained no action; such replies are counted and can raise an alarm."""
    role_rewards: Mapping[str, float] = {}
    """Of roles with a reward of their own, when `done`; 1 or more is the role's success."""


@runtime_checkable
class Env(Protocol):
    """A private world: tasks in two disjoint splits, episodes that depend only on (task, seed)."""

    name: str
    system_prompt: str
    max_turns: int

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split, always the same ones in the same order."""
        ...

    def reset(self, task: Task, *, seed: int) -> Step:
        """Start an episode; nothing remains from an earlier one."""
        ...

    def step(self, action: str) -> Step:
        """Apply one action. Text that is not a valid action gets an answer too; nothing is
        raised."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ExpertEnv(Env, Protocol):
    """An environment that can also show how its tasks are done."""

    def actions(self) -> Sequence[str]:
        """Some well-formed actions in the current state, for a random player to choose from."""
        ...

    def expert(self) -> str:
        """The action a competent player takes in the current state."""
        ...


@runtime_checkable
class HindsightEnv(Env, Protocol):
    """An environment that can name other goals an episode has reached."""

    def reached(self, episode: Trajectory) -> Iterable[Task]:
        """Training tasks that the episode's actions may have completed, the best guess first.

        `reset` accepts each of them, and none is in the test split. A wrong guess is harmless: the
        actions are replayed, and only a success counts. The episode in progress is lost.
        """
        ...


class Acting(NamedTuple):
    """Who has to act: a role of the agent, in one of its conversations."""

    role: str
    thread: int = 0


@runtime_checkable
class RolesEnv(Env, Protocol):
    """An environment in which an agent of several roles acts, one role at a time.

    An observation is for the role that has to act on it, which has seen nothing else but its own
    conversation: equal role and thread.
    """

    role_prompts: Mapping[str, str]
    """Each role and its system prompt."""

    def acting(self) -> Acting:
        """Who has to act on the newest observation, as long as the episode is open."""
        ...


@runtime_checkable
class AmendingEnv(Protocol):
    """An environment that learns later that some successes were none."""

    def taken_back(self) -> Sequence[Task]:
        """The tasks of all of them, as they were played."""
        ...


@runtime_checkable
class NewsEnv(Protocol):
    """An environment whose experience comes from outside; one with a task list always has some."""

    def has_news(self) -> bool:
        """Whether a round would find something to learn from that no round before has had."""
        ...


@runtime_checkable
class SubjectEnv(Env, Protocol):
    """An environment that can name the person or case a task is about."""

    def subject(self, task: Task) -> str:
        """A name for the data subject of a task; the same for all tasks about that subject."""
        ...


@runtime_checkable
class ProgramEnv(Env, Protocol):
    """An agent program that owns its loop: its tasks are handed out, and it plays by itself."""

    owns_loop: Literal[True]

    def player(
        self, encoder: Encoder, beat: Beat, *, roles: Sequence[str] = ()
    ) -> Callable[..., list[Trajectory]]:
        """What plays a round's games; it is called as `fedse.method.rollout.rollout` is.

        `roles` is only given if the agent has any: those that act here.
        """
        ...


EnvFactory = Callable[[], Env]
MEMBERS = ("name", "system_prompt", "max_turns", "tasks", "reset", "step", "close")
"""The members of Env, in the order in which people write them."""

# Imported on first use, so that listing environments is fast.
BUILT_IN: Mapping[str, str] = {
    "desk": "fedse.envs.desk.env:Desk",
    "maze": "fedse.envs.maze.env:Maze",
    "wordle": "fedse.envs.wordle.env:Wordle",
}

# As older configs and run folders name them.
MOVED: Mapping[str, str] = {
    "fedse.envs.bridges.agentgym_http:AgentGym": "agentgym",
    "fedse.envs.bridges.gymnasium_text:GymnasiumText": "gymnasium",
    "fedse.envs.bridges.mcp_tools:McpTools": "mcp",
    "fedse.envs.bridges.openenv_ws:OpenEnv": "openenv",
    "fedse.serve:Program": "program",
    "fedse.serve.program:Program": "program",
}


def role_prompts_of(env: Env) -> Mapping[str, str]:
    """Each role and its system prompt; none where an agent without roles acts."""
    return dict(env.role_prompts) if isinstance(env, RolesEnv) else {}


def acting_in(env: Env) -> Acting:
    """Who has to act now; an EnvError for a role that the environment has no prompt of."""
    prompts = role_prompts_of(env)
    if not prompts:
        return Acting("")
    with boundary(EnvError, f"{env.name}.acting"):
        found = Acting(*cast(RolesEnv, env).acting())
    if found.role not in prompts:
        raise EnvError(
            f"{env.name}.acting names the role {found.role!r}{did_you_mean(found.role, prompts)}",
            hint=f"role_prompts has {', '.join(sorted(prompts))}",
        )
    return found


def subject_of(env: Env, task: Task) -> str | None:
    """The data subject of a task, where the environment knows it."""
    if not isinstance(env, SubjectEnv):
        return None
    with boundary(EnvError, f"{env.name}.subject of task {task.id!r}"):
        return str(env.subject(task))


def env_names() -> tuple[str, ...]:
    """Every environment that can be made here, including installed third-party ones."""
    return tuple(sorted({*BUILT_IN, *plugin_names(plugins.ENVS)}))


def make_env(name: str, options: Mapping[str, Any] | None = None) -> Env:
    """A new instance of environment `name`; `module:Class` names one that is not registered."""
    with boundary(EnvError, f"environment {name!r}"):
        made = env_class(name)(**(options or {}))
        lacking = [member for member in MEMBERS if not hasattr(made, member)]
    if lacking:
        raise EnvError(
            f"environment {name!r}: {type(made).__name__} lacks {', '.join(lacking)} of fedse.Env",
            hint=f"fedse env check {name}",
        )
    return cast(Env, made)


def env_class(name: str) -> Callable[..., Any]:
    """The factory of environment `name`; a ConfigError names what does not exist."""
    name = MOVED.get(name, name)
    if ":" in name or name in BUILT_IN:
        module, _, attribute = BUILT_IN.get(name, name).partition(":")
        return _member(name, _module(name, module), attribute)
    require_plugin(f"environment {name!r}", plugins.ENVS, name)
    if name in plugin_names(plugins.ENVS):
        loaded: Callable[..., Any] = load_plugin(plugins.ENVS, name)
        return loaded
    known = sorted({*env_names(), *packaged(plugins.ENVS)})
    raise ConfigError(
        f"environment {name!r} is unknown; known are {', '.join(known)} and any "
        f"module:Class{did_you_mean(name, known)}",
        hint="fedse env list",
    )


def _module(name: str, module: str) -> ModuleType:
    top, *inner = module.split(".")
    if not all(part.isidentifier() for part in (top, *inner)) or inner[-1:] == ["py"]:
        raise ConfigError(
            f"environment {name!r}: {module!r} is not the name of a module",
            hint="the class MyEnv in my_env.py of this folder is my_env:MyEnv",
        )
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but one that it imports does not
        near = did_you_mean(top, [entry.name for entry in iter_modules(["."])])
        raise ConfigError(
            f"environment {name!r}: there is no module {error.name!r} here{near}",
            hint=f"run the command in the folder that holds {top}.py, or install it",
        ) from error


def _member(name: str, module: ModuleType, attribute: str) -> Callable[..., Any]:
    value: Callable[..., Any] | None = getattr(module, attribute, None) if attribute else None
    if callable(value):
        return value
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    named = f"{attribute!r}" if attribute else "class named after the colon"
    raise ConfigError(
        f"environment {name!r}: {module.__name__} has no {named}{did_you_mean(attribute, classes)}",
        hint=f"name a class of {module.__file__ or module.__name__}, as in module:Class",
    )
