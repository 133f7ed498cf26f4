"""A real OpenEnv server for the tests; run by the Python that has the openenv package.

python tests/envs/openenv_server.py PORT
"""

import sys
import time
from random import Random
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_app

TASKS = {"train": 12, "test": 5}


class Guess(Action):
    guess: str


class Told(Observation):
    text: str


class GuessGame(Environment[Guess, Told, State]):
    """Guess a number from 1 to 8 in as many tries as you like; `hang` and `crash` do."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._hidden = 0
        self._tries = 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str = "",
        index: int = 0,
        **_: Any,
    ) -> Told:
        self._hidden = Random(f"{split} {index}" if split else f"{seed}").randint(1, 8)
        self._tries = 0
        return Told(text="I think of a number from 1 to 8.")

    def step(self, action: Guess, timeout_s: float | None = None, **_: Any) -> Told:
        if action.guess == "hang":
            time.sleep(20)
        if action.guess == "crash":
            raise RuntimeError("crashed as asked")
        self._tries += 1
        if not action.guess.isdecimal() or len(action.guess) > 3:
            return Told(text="That is no number.", reward=0.0)
        guess = int(action.guess)
        if guess == self._hidden:
            return Told(text="Right.", reward=1.0, done=True)
        return Told(text="Too low." if guess < self._hidden else "Too high.", reward=0.0)

    @property
    def state(self) -> State:
        return State(step_count=self._tries)

    def list_splits(self) -> list[str]:
        return list(TASKS)

    def num_tasks(self, split: str) -> int:
        return TASKS[split]


if __name__ == "__main__":
    app = create_app(GuessGame, Guess, Told, env_name="guess", max_concurrent_envs=100)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
