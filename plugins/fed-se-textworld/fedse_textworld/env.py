"""TextWorldExpress: eight public text games, each with folds, parameters and solutions.

Departures from the published setting: an episode ends after `max_turns` turns of ours; the test
tasks are those of the test fold, the training tasks those of the training fold; and a text that is
no valid action costs a turn. An episode is a function of the task alone.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from fedse import EnvError, Step, Task
from fedse.envs import Split, action_of, require_one_of, require_positive, wrong_option
from fedse_textworld.simulator import Game, Turn

GAMES = (
    "arithmetic",
    "coin",
    "cookingworld",
    "mapreader",
    "peckingorder",
    "simonsays",
    "sorting",
    "twc",
)
SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You play a text game. The first message tells your task. Each turn you are told what you "
        "see and which actions are possible.\n"
        "Answer with a short thought and one action, like this:\n"
        "Thought: the key may be in the kitchen.\n"
        "Action: move west"
    ),
    "short": "play",
}


class TextWorld:
    """An environment (fedse.Env) with an expert that follows the simulator's solution."""

    def __init__(
        self,
        *,
        game: str = "coin",
        params: Mapping[str, int] | None = None,
        prompt: Literal["full", "short"] = "full",
        max_turns: int = 30,
        tasks_per_split: Sequence[int] = (100, 50),
    ) -> None:
        require_one_of("textworld", "game", game, GAMES)
        require_one_of("textworld", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        require_positive("textworld", "max_turns", max_turns)
        written = ",".join(f"{key}={value}" for key, value in (params or {}).items())
        self.name = "textworld"
        self.system_prompt = SYSTEM_PROMPTS[prompt]
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._place = f"{game}/{written}" if written else game
        self._game = Game(game, written)
        if self._game.problem:
            raise wrong_option("textworld", "params", dict(params or {}), self._game.problem)
        self._counts = dict(zip(("train", "test"), tasks_per_split, strict=True))
        self._turn: Turn | None = None
        self._gold: list[str] = []
        self._turns = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        """The first episodes of the fold, as many as `tasks_per_split` says."""
        seeds = self._game.seeds(split)[: self._counts[split]]
        return [Task(env=self.name, id=f"{self._place}/{seed}", split=split) for seed in seeds]

    def reset(self, task: Task, *, seed: int) -> Step:
        place, _, number = task.id.rpartition("/")
        if task.env != self.name or place != self._place or not number.isdecimal():
            raise EnvError(
                f"textworld has no {task.split} task {task.id!r} of {task.env!r} under these "
                "options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._turn, wanted, self._gold = self._game.begin(task.split, int(number))
        self._turns = 0
        return Step(self._shown(self._turn, wanted))

    def step(self, action: str) -> Step:
        before, said = self._playing(), action_of(action).strip()
        valid = said in before.valid_actions
        turn = self._game.act(said) if valid else before
        self._turns += 1
        if self._gold and said == self._gold[0]:
            self._gold = self._gold[1:]
        over = turn.solved or turn.failed or self._turns >= self.max_turns
        self._turn = None if over else turn
        text = turn.observation if valid else f"'{said[:60]}' is not possible here."
        shown = text if over else self._shown(turn, text)
        return Step(shown, reward=turn.score, done=over, success=turn.solved, valid=valid)

    def actions(self) -> Sequence[str]:
        return self._playing().valid_actions

    def expert(self) -> str:
        """The next action of the solution that has not been done."""
        possible = self._playing().valid_actions
        return next((action for action in self._gold if action in possible), possible[0])

    def close(self) -> None:
        self._turn = None

    def _playing(self) -> Turn:
        if self._turn is None:
            raise EnvError("no episode is open", hint="call reset(task, seed=...) first")
        return self._turn

    def _shown(self, turn: Turn, first: str) -> str:
        if self._short:
            return first if first == turn.observation else f"{first}\n{turn.observation}"
        listed = ", ".join(turn.valid_actions)
        around = "" if first == turn.surroundings else f"\n{turn.surroundings}"
        return f"{first}{around}\n{turn.inventory}\nPossible actions: {listed}"
