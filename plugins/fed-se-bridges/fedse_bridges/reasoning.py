"""Any data set of reasoning-gym: one question, one answer, scored by the data set itself.

    env = "reasoning-gym"
    options = { dataset = "chain_sum", dataset_options = { min_terms = 2, max_terms = 3 } }

The answer is what follows the last `Answer:` of the reply, or all of it. A task is a seed of the
data set, so the seed given to `reset` changes nothing. The expert gives the data set's own answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import reasoning_gym

from fedse import EnvError, Step, Task
from fedse.envs import Split, boundary, wrong_option
from fedse_bridges.parts import no_episode, of_split, seeds_as_tasks, unknown_task

NAME = "reasoning-gym"
PROMPT = "Solve the problem. End with one line like this:\nAnswer: 42"


class ReasoningGym:
    """An environment (fedse.Env) of one turn, with an expert."""

    def __init__(
        self,
        *,
        dataset: str,
        dataset_options: Mapping[str, Any] | None = None,
        train_tasks: int = 200,
        test_tasks: int = 50,
        success: float = 1.0,
        system_prompt: str = PROMPT,
    ) -> None:
        """`success` = the score from which an answer counts as right."""
        self.name, self.system_prompt, self.max_turns = NAME, system_prompt, 1
        self._seeds = seeds_as_tasks(NAME, train_tasks, test_tasks)
        self._dataset, self._options = dataset, dict(dataset_options or {})
        self._success = success
        self._open: tuple[Any, Mapping[str, Any]] | None = None
        try:
            self._made(0)
        except (AssertionError, TypeError, ValueError) as error:
            given = {dataset: self._options}
            raise wrong_option(NAME, "dataset", given, f"valid ({error})") from error

    def tasks(self, split: Split) -> Sequence[Task]:
        return of_split(self._seeds, split)

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._seeds:
            raise unknown_task(NAME, task)
        with boundary(EnvError, f"{NAME}: task {task.id!r} of {self._dataset}"):
            self._open = _, entry = self._made(self._seeds[task])
        return Step(str(entry["question"]))

    def step(self, action: str) -> Step:
        (data, entry), answer = self._playing(), action.rpartition("Answer:")[2].strip()
        self._open = None
        with boundary(EnvError, f"{NAME}: score of an answer to {self._dataset}"):
            score = float(data.score_answer(answer, entry))
        return Step("", reward=score, done=True, success=score >= self._success, valid=bool(answer))

    def actions(self) -> Sequence[str]:
        return (self.expert(), "Answer: I do not know")

    def expert(self) -> str:
        return f"Answer: {self._playing()[1]['answer']}"

    def close(self) -> None:
        self._open = None

    def _made(self, seed: int) -> tuple[Any, Mapping[str, Any]]:
        data = reasoning_gym.create_dataset(self._dataset, seed=seed, size=1, **self._options)
        return data, data[0]

    def _playing(self) -> tuple[Any, Mapping[str, Any]]:
        if self._open is None:
            raise no_episode(NAME)
        return self._open
