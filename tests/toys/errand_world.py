"""A planner and two workers: the smallest environment in which an agent has roles."""

from collections.abc import Sequence

from fedse.envs.base import Acting, Step
from fedse.errors import EnvError
from fedse.types import Split, Task

ORDER = (Acting("planner"), Acting("worker"), Acting("worker", 1), Acting("planner"))
RIGHT = {"planner": "heads", "worker": "tails"}


class Errand:
    """The planner says heads, each worker says tails, the planner says heads again."""

    def __init__(self, *, tasks: int = 8, secret: str = "") -> None:
        self.name, self.max_turns, self._tasks = "errand", 6, tasks
        self.system_prompt = "nobody"
        self.role_prompts = {"planner": "You plan.", "worker": f"You work. {secret}".strip()}
        self._said: list[bool] | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=self.name, id=f"{split}-{i}", split=split) for i in range(self._tasks)]

    def reset(self, task: Task, *, seed: int) -> Step:
        self._task, self._said = task, []
        return Step(f"plan {task.id}")

    def acting(self) -> Acting:
        return ORDER[len(self._said or ())]

    def step(self, action: str) -> Step:
        if self._said is None:
            raise EnvError("no episode is open")
        self._said.append(action == self.expert())
        if len(self._said) == len(ORDER):
            success, self._said = all(self._said), None
            return Step("over", float(success), done=True, success=success)
        return Step(f"do {self._task.id}" if self.acting().role == "worker" else "and now?")

    def actions(self) -> Sequence[str]:
        return tuple(RIGHT.values())

    def expert(self) -> str:
        return RIGHT[self.acting().role]

    def close(self) -> None:
        self._said = None
