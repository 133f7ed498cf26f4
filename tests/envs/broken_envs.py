"""Environments with one deliberate defect each; every one must be caught by the check it names.

All but two are the same corridor, in which one says `go` three times, with one thing changed.
"""

import os
import random
from collections.abc import Sequence
from typing import Any

from fedse.envs.base import Step
from fedse.errors import EnvError
from fedse.types import Split, Task


class Sound:
    """No defect: the control. `go` three times, with a word that depends on (task, seed)."""

    length = 3

    def __init__(self, **options: Any) -> None:
        self.name, self.system_prompt, self.max_turns = "corridor", "say go", 5
        self.options = options
        self.at: int | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=self.name, id=f"{split}{i}", split=split) for i in range(6)]

    def reset(self, task: Task, *, seed: int) -> Step:
        self.at = 0
        return Step(f"{task.id} {random.Random(seed).random()}")

    def step(self, action: str) -> Step:
        if self.at is None:
            raise EnvError("no episode")
        self.at += action == "go"
        if self.at < self.length:
            return Step(f"at {self.at}")
        self.at = None
        return Step("there", reward=1.0, done=True, success=True)

    def actions(self) -> Sequence[str]:
        return ["go", "wait"]

    def expert(self) -> str:
        return "go"

    def close(self) -> None:
        self.at = None


class NoStep:
    name, system_prompt, max_turns = "corridor", "", 3


class CannotBeMade(Sound):
    def __init__(self, **options: Any) -> None:
        raise RuntimeError("no corridor is free")


class BadTurnCap(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.max_turns = 0


class ShufflesTasks(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        return random.sample(super().tasks(split), 6)


class NoTestTasks(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        return super().tasks(split) if split == "train" else []


class RepeatsIds(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        return [*super().tasks(split), super().tasks(split)[0]]


class OverlappingSplits(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=self.name, id=f"t{i}", split=split) for i in range(6)]


class DoneAtReset(Sound):
    def reset(self, task: Task, *, seed: int) -> Step:
        return super().reset(task, seed=seed)._replace(done=True)


class StopsEarly(Sound):
    """Raises before the turn cap without having said done."""

    turns = 0

    def reset(self, task: Task, *, seed: int) -> Step:
        self.turns = 0
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Step:
        self.turns += 1
        if self.turns > 1:
            raise EnvError("too many turns")
        return super().step(action)


class AnswersTuples(Sound):
    def step(self, action: str) -> Any:
        return tuple(super().step(action))


class AnswersBytes(Sound):
    def step(self, action: str) -> Any:
        return super().step(action)._replace(observation=b"at")


class RewardsNaN(Sound):
    def step(self, action: str) -> Step:
        return super().step(action)._replace(reward=float("nan"))


class SucceedsUndone(Sound):
    def step(self, action: str) -> Step:
        return super().step(action)._replace(success=True)


class GlobalRandom(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(observation=f"{step.observation} {random.random()}")


class UsesHash(Sound):
    def reset(self, task: Task, *, seed: int) -> Step:
        step = super().reset(task, seed=seed)
        return step._replace(observation=f"{step.observation} {hash(task.id) % 97}")


class OrdersSet(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        ids = {task.id for task in super().tasks(split)}
        return [Task(env=self.name, id=one, split=split) for one in ids]


class LeaksBetweenEpisodes(Sound):
    played = 0

    def reset(self, task: Task, *, seed: int) -> Step:
        self.played += 1
        return super().reset(task, seed=seed)._replace(observation=f"game {self.played}")


class LeaksBetweenInstances(Sound):
    """Seeds the global generator at reset: right alone, wrong beside another instance."""

    def reset(self, task: Task, *, seed: int) -> Step:
        random.seed(seed)
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(observation=f"{step.observation} {random.random()}")


class RaisesOnInvalid(Sound):
    def step(self, action: str) -> Step:
        if action not in self.actions():
            raise ValueError(f"unknown action {action}")
        return super().step(action)


class PlaysOnAfterDone(Sound):
    def step(self, action: str) -> Step:
        if self.at is None:
            return Step("over", done=True)
        return super().step(action)


class WrongErrorAfterDone(Sound):
    def step(self, action: str) -> Step:
        if self.at is None:
            raise RuntimeError("over")
        return super().step(action)


class ExpertMoves(Sound):
    def expert(self) -> str:
        self.at = (self.at or 0) + 1
        return "wait"


class BadExpert(Sound):
    def expert(self) -> str:
        return "wait"


class Prints(Sound):
    def step(self, action: str) -> Step:
        print("stepping")
        return super().step(action)


class PrintsBelowPython(Sound):
    def step(self, action: str) -> Step:
        os.write(1, b"from C")
        return super().step(action)


class NoExpert:
    """Sound, without an expert, and never done by itself."""

    def __init__(self) -> None:
        self.name, self.system_prompt, self.max_turns = "plain", "", 3

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=self.name, id=split, split=split)]

    def reset(self, task: Task, *, seed: int) -> Step:
        return Step("hello")

    def step(self, action: str) -> Step:
        return Step(action[:5])

    def close(self) -> None: ...
