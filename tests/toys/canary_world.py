"""A world that says one unmistakable string in everything an agent can see of it."""

from fedse.envs.base import Step
from fedse.testing import CoinWorld
from fedse.types import Split, Task

CANARY = "canary-7f3e9c51d2"


class CanaryWorld:
    """CoinWorld whose observations, tasks and system prompt all hold the canary."""

    def __init__(self, *, breaks: bool = False) -> None:
        self._world = CoinWorld(secret=CANARY)
        self.name, self.max_turns = "canary", self._world.max_turns
        self.system_prompt, self._breaks = self._world.system_prompt, breaks

    def tasks(self, split: Split) -> list[Task]:
        return [Task(env="canary", id=f"{split}-{i}-{CANARY}", split=split) for i in range(4)]

    def reset(self, task: Task, *, seed: int) -> Step:
        if self._breaks:
            raise RuntimeError(f"the world broke at {CANARY}")
        return self._world.reset(task, seed=seed)

    def step(self, action: str) -> Step:
        return self._world.step(action)

    def actions(self) -> tuple[str, ...]:
        return ("heads", "tails")

    def expert(self) -> str:
        return self._world.expert()

    def close(self) -> None: ...
