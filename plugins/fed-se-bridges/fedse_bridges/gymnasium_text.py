"""Any Gymnasium environment as text: the user says how it reads and how actions are written.

    env = "gymnasium"
    options = { env = "Taxi-v4", render = "my_taxi:render", parse = "my_taxi:parse" }

`render(observation) -> text` and `parse(text) -> action` are functions, or their names as
`module:function` in TOML. `parse` is given what follows the agent's last `Action:`. It signals "no
action" by None, ValueError or LookupError; an action outside the action space counts the same.
Such a turn is answered and spent; the environment is not stepped.

A task is a seed of the environment's own generator: its world and its noise. So the seed given to
`reset` changes nothing. Success is what `success` says: a number r means "terminated with a last
reward above r"; a function is called with (observation, reward, terminated, info). A turn budget
used up ends the episode as failed. With `expert(env) -> text`, `env` being the Gymnasium
environment, the bridge can demonstrate; `actions` are then texts a random player chooses from.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium

from fedse import EnvError, Step, Task
from fedse.envs import Split, action_of, boundary, require_positive, wrong_option
from fedse_bridges.parts import (
    NO_ACTION,
    named_function,
    no_episode,
    of_split,
    seeds_as_tasks,
    unknown_task,
)


class GymnasiumText:
    """An environment (fedse.Env); one with an expert exactly when `expert` is given."""

    actions: Callable[[], Sequence[str]]
    expert: Callable[[], str]

    def __init__(
        self,
        *,
        env: str | Callable[..., Any],
        render: str | Callable[[Any], str],
        parse: str | Callable[[str], Any],
        name: str = "gymnasium",
        env_options: Mapping[str, Any] | None = None,
        train_tasks: int = 200,
        test_tasks: int = 50,
        success: float | str | Callable[[Any, float, bool, Mapping[str, Any]], bool] = 0.0,
        max_turns: int = 30,
        system_prompt: str = "",
        expert: str | Callable[[Any], str] | None = None,
        actions: Sequence[str] = (),
    ) -> None:
        require_positive(name, "max_turns", max_turns)
        self.name = name
        self.system_prompt = system_prompt
        self.max_turns = max_turns
        self._make = _maker(name, env, dict(env_options or {}))
        self._render = named_function(name, "render", render)
        self._parse = named_function(name, "parse", parse)
        self._succeeded = _success_rule(name, success)
        self._seeds = seeds_as_tasks(name, train_tasks, test_tasks)
        self._env: Any = None
        self._turns: int | None = None
        self._view = ""
        if expert is not None:
            if not actions:
                raise wrong_option(name, "actions", actions, "some actions, as there is an expert")
            choose, written = named_function(name, "expert", expert), tuple(actions)
            self.expert = lambda: str(choose(self._playing()))
            self.actions = lambda: written

    def tasks(self, split: Split) -> Sequence[Task]:
        """One task per seed; no seed is in both splits."""
        return of_split(self._seeds, split)

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._seeds:
            raise unknown_task(self.name, task)
        self._turns = None
        with boundary(EnvError, f"{self.name}: reset to task {task.id!r}"):
            if self._env is None:
                self._env = self._make()
            observation, _ = self._env.reset(seed=self._seeds[task])
            self._view = self._text(observation)
        self._turns = 0
        return Step(self._view)

    def step(self, action: str) -> Step:
        env, turn = self._playing(), (self._turns or 0) + 1
        self._turns = None  # a step that raises leaves no episode open
        with boundary(EnvError, f"{self.name}: step {turn}"):
            move = self._move(action)
            if move is None:
                over, observation = turn >= self.max_turns, f"{NO_ACTION}\n{self._view}"
                answer = Step(observation, done=over, valid=False)
            else:
                answer = self._step_of(env.step(move), out_of_turns=turn >= self.max_turns)
        self._turns = None if answer.done else turn
        return answer

    def close(self) -> None:
        env, self._env, self._turns = self._env, None, None
        if env is not None:
            with boundary(EnvError, f"{self.name}: close"):
                env.close()

    def _playing(self) -> Any:
        if self._turns is None:
            raise no_episode(self.name)
        return self._env

    def _move(self, text: str) -> Any:
        try:
            move = self._parse(action_of(text))
        except (ValueError, LookupError):
            return None
        return move if move is not None and self._env.action_space.contains(move) else None

    def _step_of(self, result: Sequence[Any], *, out_of_turns: bool) -> Step:
        observation, reward, terminated, truncated, info = result
        self._view = self._text(observation)
        done = bool(terminated or truncated) or out_of_turns
        won = done and bool(self._succeeded(observation, float(reward), bool(terminated), info))
        return Step(self._view, reward=float(reward), done=done, success=won)

    def _text(self, observation: Any) -> str:
        text = self._render(observation)
        if not isinstance(text, str):
            raise EnvError(
                f"{self.name}: option render must return text, got {type(text).__name__} for "
                f"{observation!r:.80}",
                hint="correct the render function, then check again with fedse.check_env",
            )
        return text


def _maker(
    name: str, env: str | Callable[..., Any], options: Mapping[str, Any]
) -> Callable[[], Any]:
    """Makes the Gymnasium environment; `package:Name-v0` is an id of Gymnasium's own kind."""
    if callable(env) or env.partition(":")[2].isidentifier():
        factory = named_function(name, "env", env)
        return lambda: factory(**options)
    return lambda: _make_registered(name, env, options)


def _make_registered(name: str, env: str, options: Mapping[str, Any]) -> Any:
    return gymnasium.make(env, **options)


def _success_rule(name: str, rule: object) -> Callable[..., bool]:
    if isinstance(rule, bool):
        raise wrong_option(name, "success", rule, "a number or a function")
    if isinstance(rule, int | float):
        threshold = rule
        return lambda observation, reward, terminated, info: terminated and reward > threshold
    return named_function(name, "success", rule)
