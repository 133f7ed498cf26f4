"""An agent program that owns its loop, as a client: fedse hands out tasks, the program plays them.

    [[clients]]
    name = "me"
    env = "program"
    options = { play = "my_agent:play", train = 40, test = 20 }

`play(base_url, task)` is called once per episode and returns the reward; `base_url` is the argument
of that name of an OpenAI client. A reward of 1 or more is a success, and so is True. Instead of
`play`, `command = ["node", "agent.js"]` is started once per episode and finds OPENAI_BASE_URL,
OPENAI_API_KEY, FEDSE_TASK, FEDSE_SEED and FEDSE_REWARD_URL in its environment; with `per = "round"`
it is started once and asks for episodes itself, see fedse_agents/endpoint.py.

An agent of several roles asks with `model = "planner"`, a name of `roles.names`. If a role has a
reward of its own, `play` returns two things, such as `1.0, {"critic": 0.0}`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Literal

from fedse.agent.policy import Beat
from fedse.agent.prompt import Encoder
from fedse.envs.base import Step
from fedse.errors import ConfigError, EnvError, boundary
from fedse.types import Split, Task, Trajectory
from fedse_agents.rewards import Reported

Play = Callable[[str, str], Reported]
"""Base URL and task -> reward."""


class Program:
    """Has the members of an environment but cannot be stepped, because it plays by itself."""

    owns_loop: Literal[True] = True

    def __init__(
        self,
        *,
        play: str = "",
        command: Sequence[str] = (),
        per: Literal["episode", "round"] = "episode",
        train: int | Sequence[str] = 32,
        test: int | Sequence[str] = 16,
        max_turns: int = 50,
        parallel: int = 8,
        timeout: int = 600,
    ) -> None:
        if per not in ("episode", "round"):
            raise _wrong("per", per, "one of episode, round")
        for option, got in (("max_turns", max_turns), ("parallel", parallel), ("timeout", timeout)):
            _require_positive(option, got)
        _require_one_way(play, command, per)
        self.name, self.system_prompt, self.max_turns = "program", "", max_turns
        self.play = _function(play) if play else None
        self.command, self.per = tuple(command), per
        self.parallel = parallel
        """Episodes that are played at the same time, so also the largest batch."""
        self.timeout = timeout
        """Seconds one call of `play`, or one start of the command, may take."""
        self._tasks: dict[Split, tuple[Task, ...]] = {
            "train": _tasks("train", train),
            "test": _tasks("test", test),
        }
        both = {task.id for task in self._tasks["train"]} & {t.id for t in self._tasks["test"]}
        if both:
            raise _wrong("test", min(both), "tasks that train does not have")

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        raise _not_steppable()

    def step(self, action: str) -> Step:
        raise _not_steppable()

    def close(self) -> None: ...

    def player(
        self, encoder: Encoder, beat: Beat, *, roles: Sequence[str] = ()
    ) -> Callable[..., list[Trajectory]]:
        """Plays a round's games as `rollout` does."""
        from fedse_agents.play import play_program

        return partial(play_program, encoder=encoder, beat=beat, roles=roles)


def _wrong(option: str, got: object, expected: str) -> ConfigError:
    return ConfigError(
        f"environment 'program': option {option} must be {expected}, got {got!r}",
        hint=f"change {option} in this client's options, then: fedse doctor CONFIG",
    )


def _require_positive(option: str, got: object) -> None:
    if not isinstance(got, int) or isinstance(got, bool) or got < 1:
        raise _wrong(option, got, "a whole number of at least 1")


def _not_steppable() -> EnvError:
    return EnvError(
        "an agent program owns its loop, so it cannot be stepped or played by hand",
        hint="try it in one short round: fedse run CONFIG --set run.rounds=1",
    )


def _require_one_way(play: object, command: object, per: str) -> None:
    if bool(play) == bool(command) or (play and per == "round"):
        got = [name for name, given in (("play", play), ("command", command)) if given]
        raise ConfigError(
            "environment 'program': expected either "
            'play = "module:function" or command = '
            f'[...], and per = "round" only with a command; got {" and ".join(got) or "neither"}',
            hint='options = { play = "my_agent:play", train = 40, test = 20 }',
        )
    if command and not (
        isinstance(command, list | tuple) and all(isinstance(word, str) for word in command)
    ):
        raise _wrong("command", command, 'a list of words, ["node", "agent.js"]')


def _function(name: str) -> Play:
    module, _, attribute = name.partition(":")
    with boundary(EnvError, f"environment 'program': play = {name!r}"):
        value = getattr(import_module(module), attribute)
    if not callable(value):
        raise _wrong("play", name, "the module:name of a function")
    function: Play = value
    return function


def _tasks(split: Split, given: int | Sequence[str]) -> tuple[Task, ...]:
    """The tasks the user named, or the given number of tasks, named by their number."""
    if isinstance(given, int):
        _require_positive(split, given)
        given = [f"{split}-{number}" for number in range(given)]
    if isinstance(given, str) or not given or not all(isinstance(name, str) for name in given):
        raise _wrong(split, given, "a number of tasks or a list of their names")
    if len(set(given)) < len(given):
        raise _wrong(split, given, "names that are all different")
    return tuple(Task(env="program", id=name, split=split) for name in given)
