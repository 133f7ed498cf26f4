"""A world that costs nothing: random words to read, always the same number of turns."""

from collections.abc import Sequence
from random import Random

from fedse.envs.base import Step
from fedse.types import Split, Task

WORDS = [
    "amber",
    "bridge",
    "candle",
    "door",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
    "ladder",
]
SYSTEM_WORDS, SEEN_WORDS = 120, 30


class Talk:
    """Reads SEEN_WORDS new words a turn, like a text game; solved after `turns` turns."""

    name = "talk"

    def __init__(self, turns: int = 8) -> None:
        self.max_turns = turns
        self.system_prompt = f"You are an agent. {_words(Random(0), SYSTEM_WORDS)}"

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=self.name, id=str(i), split=split) for i in range(1000)]

    def reset(self, task: Task, *, seed: int) -> Step:
        self._random, self._turn = Random(f"{task.id} {seed}"), 0
        return Step(_words(self._random, SEEN_WORDS), 0.0, done=False, success=False)

    def step(self, action: str) -> Step:
        self._turn += 1
        done = self._turn == self.max_turns
        seen = _words(self._random, SEEN_WORDS)
        return Step(seen, float(done), done=done, success=done)

    def close(self) -> None:
        """Nothing is open."""


def _words(random: Random, count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))
