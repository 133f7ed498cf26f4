"""The environment under test: fresh instances, sampled tasks, recorded and replayed episodes.

All of it follows from (name, options, count, seed); an environment that keeps its contract gives
the same Subject every time.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from fedse.envs.base import Env, ExpertEnv, Step, acting_in, make_env
from fedse.envs.conformance.replay import (
    Recording,
    Replayed,
    ReplayRequest,
    replay,
    replay_in_child,
)
from fedse.seeds import seed_of
from fedse.types import Split, Task

SPLITS: tuple[Split, ...] = ("train", "test")

# Texts that are not valid actions anywhere; a sampled model does write such things.
NO_ACTIONS = (
    "",
    " ",
    "\n",
    "\x00\x07\x1b[2J",
    "Action:",
    "Thought: none\nAction: \nAction:",
    "r\u00e9sum\u00e9 \u6f22\u5b57 \U0001f9ed \u202e",
    "{}[]()%s\\",
    "x" * 100_000,
)


class Broken(Exception):
    """A promise that was not kept, in one sentence."""


class Untried(Exception):
    """Why a promise could not be tried."""


@dataclass
class Subject:
    """The environment under test, and what several promises share."""

    name: str
    options: Mapping[str, Any]
    count: int
    seed: int
    actions: Sequence[str]
    hash_seeds: Sequence[int]
    timeout: float
    printed: io.StringIO = field(default_factory=io.StringIO)
    """What the environment printed in this process."""

    _made: list[Env] = field(default_factory=list)

    def fresh(self) -> Env:
        self._made.append(make_env(self.name, self.options))
        return self._made[-1]

    def close(self) -> None:
        """Every instance that was made so far is closed, once."""
        while self._made:
            self._made.pop().close()

    def sample(self, split: Split) -> list[Task]:
        """Up to `count` tasks of the split, the same ones each time."""
        tasks = self.fresh().tasks(split)
        return Random(seed_of(self.seed, split)).sample(tasks, min(self.count, len(tasks)))

    def record(self) -> list[tuple[Recording, list[Step]]]:
        """Episodes of both splits; half of the moves are the expert's, if there is one."""
        return [self._record(task) for split in SPLITS for task in self.sample(split)]

    def _record(self, task: Task) -> tuple[Recording, list[Step]]:
        env, seed = self.fresh(), seed_of(self.seed, task.id)
        random, actions = Random(seed), list[str]()
        steps = [_a_step(env.reset(task, seed=seed), env)]
        while not steps[-1].done and len(actions) < env.max_turns:
            actions.append(self._some_action(env, random))
            steps.append(_a_step(env.step(actions[-1]), env))
        self._made.pop().close()
        return Recording(task=task, seed=seed, actions=tuple(actions)), steps

    def _some_action(self, env: Env, random: Random) -> str:
        if isinstance(env, ExpertEnv):
            return env.expert() if random.random() < 0.5 else random.choice(list(env.actions()))
        return random.choice(self.actions or NO_ACTIONS)

    @cached_property
    def recorded(self) -> list[tuple[Recording, list[Step]]]:
        try:
            played = self.record()
        except Exception as error:
            raise Untried(f"no episode could be played: {error}") from error
        if not played:
            raise Untried("there are no tasks to play")
        return played

    @cached_property
    def recordings(self) -> tuple[Recording, ...]:
        return tuple(recording for recording, _ in self.recorded)

    @cached_property
    def replayed(self) -> list[tuple[str, ...]]:
        """The same episodes, each in its own fresh instance, without calls to the expert."""
        return [replay(self.fresh(), recording) for recording in self.recordings]

    @cached_property
    def children(self) -> list[Replayed]:
        if not self.hash_seeds:
            raise Untried("no child process was requested (hash_seeds is empty)")
        request = ReplayRequest(
            env=self.name, options=dict(self.options), recordings=self.recordings
        )
        return [
            replay_in_child(request, hash_seed=hash_seed, timeout=self.timeout)
            for hash_seed in self.hash_seeds
        ]


def _a_step(answer: object, env: Env) -> Step:
    """The environment's answer; if the agent has roles, it says which of them acts next."""
    if not isinstance(answer, Step):
        raise Broken(f"expected a fedse.envs.base.Step, got {answer!r:.200}")
    if not answer.done:
        acting_in(env)
    return answer
