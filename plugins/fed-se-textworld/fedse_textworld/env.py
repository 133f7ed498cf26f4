"""TextWorldExpress: eight public text games with folds, parameters and solutions.

Departures from the published setting: an episode ends after `max_turns` turns of ours; a text that
is no possible action costs a turn and changes nothing; of tasks that begin and are solved alike
only the first is one. Success is the simulator's, and the reward its score. An episode is a
function of the task; the seed changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fedse import EnvError, Step, Task
from fedse.envs import Split, action_of, require_one_of, require_positive, wrong_option
from fedse_textworld.kinds import Kind, Length, kinds_of, tasks_of
from fedse_textworld.simulator import Game, Turn, give_back, seeds_of, take_game
from fedse_textworld.solutions import Begin, Solution, parted, solve, texts_read
from fedse_textworld.wording import short_task, short_text

SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You play a text game. The first message tells your task. Each turn you are told what you "
        "see and have and which actions are possible.\n"
        "Answer with a short thought and one action, like this:\n"
        "Thought: the coin may be in the next room.\n"
        "Action: move west"
    ),
    "short": "play",
}
# All the short prompt says about a text that is no possible action.
REFUSED = "no"
Games = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


@dataclass
class _Episode:
    game: Game
    kind: Kind
    split: Split
    number: int
    turn: Turn
    said: list[str] = field(default_factory=list)

    @property
    def solution(self) -> Solution:
        return solve(self.kind.game, self.kind.params, self.split, self.number)


class TextWorld:
    """An environment (fedse.Env) with an expert that follows the simulator's solution."""

    def __init__(
        self,
        *,
        games: Games = "coin",
        held_out: Games | None = None,
        tasks_per_kind: Sequence[int] = (100, 50),
        begin: int | Sequence[str] | None = None,
        max_turns: int = 50,
        prompt: Literal["full", "short"] = "full",
        show_actions: bool | None = None,
    ) -> None:
        """`held_out` = what the test tasks are of, if other than `games`."""
        require_one_of("textworld", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        require_positive("textworld", "max_turns", max_turns)
        self._begin = _begin(begin)
        if len(tasks_per_kind) != 2:
            raise wrong_option("textworld", "tasks_per_kind", tasks_per_kind, "[train, test]")
        for number in tasks_per_kind:
            require_positive("textworld", "tasks_per_kind", number)
        own = kinds_of("games", games)
        tested = own if held_out is None else kinds_of("held_out", held_out)
        self.name = "textworld"
        self.system_prompt = SYSTEM_PROMPTS[prompt]
        self.max_turns = max_turns
        self._kinds: Mapping[Split, tuple[Kind, ...]] = {"train": own, "test": tested}
        self._per_kind = dict(zip(("train", "test"), tasks_per_kind, strict=True))
        self._short = prompt == "short"
        self._show_actions = not self._short if show_actions is None else show_actions
        self._episode: _Episode | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        """The first of each kind that can be solved in `max_turns`; any first part is mixed."""
        length = Length(self._begin, self.max_turns)
        return tasks_of(self._kinds[split], split, self._per_kind[split], length)

    def reset(self, task: Task, *, seed: int) -> Step:
        self.close()
        kind, number = self._found(task)
        game = take_game(kind.game, kind.params)
        turn, wanted = game.begin(task.split, number)
        self._episode = episode = _Episode(game, kind, task.split, number, turn)
        made = parted(episode.solution, self._begin)[0] if self._begin else ()
        for move in made:
            episode.turn = game.act(move.action)
        return Step(self._first_view(episode, wanted, texts_read(made)))

    def step(self, action: str) -> Step:
        episode, said = self._playing(), action_of(action)
        possible = {one.casefold(): one for one in episode.turn.possible}
        chosen = possible.get(said.casefold().removesuffix("."))
        episode.said.append(chosen or "")
        if chosen is not None:
            episode.turn = episode.game.act(chosen)
        turn, valid = episode.turn, chosen is not None
        over = turn.solved or turn.failed or len(episode.said) >= self.max_turns
        told = turn.observation if valid else self._refusal(said)
        if over:
            self.close()
        shown = told.strip() if over else self._view(turn, told)
        return Step(shown, reward=turn.score, done=over, success=turn.solved, valid=valid)

    def actions(self) -> Sequence[str]:
        """Everything that can be done here; as long as a list in the full observation."""
        return self._playing().turn.possible

    def expert(self) -> str:
        """The next action of the solution that has not been done and is possible."""
        episode = self._playing()
        left = [move.action for move in parted(episode.solution, self._begin)[1]]
        for said in episode.said:
            if left and said == left[0]:
                del left[0]
        possible = episode.turn.possible
        return next((action for action in left if action in possible), possible[0])

    def close(self) -> None:
        if self._episode is not None:
            give_back(self._episode.game)
        self._episode = None

    def _found(self, task: Task) -> tuple[Kind, int]:
        """The kind of the task and the simulator's number of its episode."""
        name, _, number = task.id.rpartition("/")
        for kind in self._kinds[task.split] if task.env == self.name else ():
            known = seeds_of(kind.game, task.split)
            if kind.name == name and number.isdecimal() and int(number) in known:
                return kind, int(number)
        raise EnvError(
            f"textworld has no {task.split} task {task.id!r} of {task.env!r} under these options",
            hint="take tasks from tasks(split) of an environment with the same options",
        )

    def _playing(self) -> _Episode:
        if self._episode is None:
            raise EnvError(
                "textworld: no episode is open; expected reset() first, got an action before it or "
                "after done",
                hint="call reset(task, seed=...) before step(), actions() and expert()",
            )
        return self._episode

    def _refusal(self, said: str) -> str:
        return REFUSED if self._short else f"'{said[:60]}' is not possible here."

    def _first_view(self, episode: _Episode, wanted: str, read: Sequence[str]) -> str:
        """The task, what has been read, and what is seen and held."""
        turn, seen = episode.turn, episode.turn.surroundings or episode.turn.observation
        if not self._short:
            return self._listed(turn, [wanted, *read, seen, turn.inventory])
        texts = map(short_text, (*read, seen, turn.inventory))
        told = [short_task(episode.kind.game, wanted), *filter(None, texts)]
        return self._listed(turn, ["; ".join(told)])

    def _view(self, turn: Turn, told: str) -> str:
        """What is told, and in full what is seen and held."""
        parts = [short_text(told)] if self._short else [told, turn.surroundings, turn.inventory]
        return self._listed(turn, parts)

    def _listed(self, turn: Turn, parts: Sequence[str]) -> str:
        """The parts, each once, and what is possible, if that is shown."""
        actions = [f"Possible actions: {', '.join(turn.possible)}"] * self._show_actions
        return "\n".join(dict.fromkeys(filter(None, map(str.strip, (*parts, *actions)))))


def _begin(given: int | str | Sequence[str] | None) -> Begin:
    """The option, checked, as something that can be a key."""
    if given is None or (type(given) is int and given > 0):
        return given
    verbs = () if isinstance(given, int | str) else tuple(given)
    if not verbs or not all(isinstance(verb, str) for verb in verbs):
        raise wrong_option("textworld", "begin", given, "a whole number above 0 or a list of verbs")
    return verbs
