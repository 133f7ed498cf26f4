"""BabyAI: go to, open, pick up and put down things in a grid of rooms, seen seven cells ahead.

The published task (BabyAI levels of minigrid, in text as AgentGym plays them) is `levels = "all"`
with 20 turns. Departures from it: the goal keeps the order of its parts; success is the episode's
end with a positive reward of minigrid, however late, and has reward 1.0, everything else
0.0; `pick up` is understood; the splits are disjoint by seed. An episode is a function of the
task; the seed changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fedse import EnvError, Step, Task, Trajectory
from fedse.envs import Split, action_of, require_one_of, require_positive
from fedse_worlds.babyai.expert import advise
from fedse_worlds.babyai.levels import gym_id, level_names, tasks_of
from fedse_worlds.babyai.moves import (
    CHECK_ACTIONS,
    NO_ACTION,
    Move,
    available,
    move_of,
    plain_words,
)
from fedse_worlds.babyai.view import View, full_view, look, short_view
from fedse_worlds.babyai.world import (
    DROP,
    FORWARD,
    GO_TO,
    PICK,
    PICK_UP,
    TOGGLE,
    WAIT,
    Cell,
    Wish,
    World,
    ahead_of,
    open_level,
    wish_of,
)

SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You explore rooms on a grid and carry out the goal you are given. You see at most six "
        "steps ahead and three to each side; walls and doors that are not open block your sight. "
        "Things of the same name are numbered, the nearest is 1.\n"
        "Each turn, do one action:\n"
        "turn left, turn right, move forward: one quarter turn or one step\n"
        "go to <object> <number>: walk to a thing in sight and face it\n"
        "pick up <object> <number>: walk there and take it; you can carry one thing\n"
        "drop: put what you carry on the empty cell in front of you\n"
        "toggle: open or close the door, or open the box, in front of you; a locked door needs "
        "the key of its colour in your hands\n"
        "go through <door> <number>: walk through an open door\n"
        "toggle and go through <door> <number>: walk to a closed or locked door, open it and "
        "walk through\n"
        "check available actions: list what you can do here\n"
        "Answer with a short thought and one action, like this:\n"
        "Thought: the red ball is in sight, so I can walk to it.\n"
        "Action: go to red ball 1"
    ),
    "short": "rooms",
}


# All the short prompt says about an action that did nothing or stopped early.
REFUSED = "no"

_SHORT_PHRASES: Mapping[str, str] = {
    "in front of you": "front",
    "behind you": "behind",
    "on your ": "",
    ", then": " then",
    "after you": "after",
}
# Why a primitive changed nothing.
_WHY: Mapping[int, str] = {
    FORWARD: "something is in the way",
    PICK_UP: "there is nothing to pick up",
    DROP: "that takes something in your hands and an empty cell in front of you",
    TOGGLE: "nothing in front of you opens or closes; a locked door needs the key of its colour",
}


class BabyAI:
    """An environment (fedse.Env) with an expert that knows only what the agent has seen."""

    def __init__(
        self,
        *,
        levels: str | int | Sequence[str | int] = "one_room",
        seeds_per_level: Sequence[int] = (40, 10),
        max_turns: int = 20,
        prompt: Literal["full", "short"] = "full",
        show_actions: bool | None = None,
        held_out: str | int | Sequence[str | int] | None = None,
    ) -> None:
        """`held_out` = levels of the test tasks, if other than those to train in."""
        require_one_of("babyai", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        require_positive("babyai", "max_turns", max_turns)
        test_levels = levels if held_out is None else held_out
        self._tasks = tasks_of(level_names(levels), seeds_per_level, level_names(test_levels))
        self.name = "babyai"
        self.system_prompt = SYSTEM_PROMPTS[prompt]
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._show_actions = not self._short if show_actions is None else show_actions
        self._known = frozenset(task for tasks in self._tasks.values() for task in tasks)
        self._world: World | None = None
        self._view: View | None = None
        self._seen: set[Cell] = set()
        """Cells that were in sight at the end of some turn of the open episode."""
        self._turns = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        world_id, wish = self._wished(task)
        if task.model_copy(update={"id": world_id}) not in self._known:
            raise EnvError(
                f"babyai has no {task.split} task {task.id!r} of {task.env!r} under these options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        level, _, number = world_id.partition("/")
        self._world = open_level(gym_id(level), int(number), wish)
        self._turns, self._seen = 0, set()
        view = self._look(self._world)
        return Step(view if self._short else f"Your goal: {self._world.mission}.\n{view}")

    def step(self, action: str) -> Step:
        world, view = self._playing()
        self._turns += 1
        words, valid = plain_words(action_of(action)), True
        if words == CHECK_ACTIONS:
            note = self._action_list(view)
        else:
            move = move_of(words, view, short=self._short)
            note, valid = _carry_out(world, move), move != NO_ACTION
            note = REFUSED if note and self._short else note
        if world.over or self._turns >= self.max_turns:
            self._world = None
            end, won = "Success" if world.won else "Failure", world.won
            return Step(end, reward=float(won), done=True, success=won, valid=valid)
        return Step(self._look(world, note), valid=valid)

    def actions(self) -> Sequence[str]:
        """What can be done here; as long as a list in the full observation."""
        _, view = self._playing()
        return tuple(available(view, short=self._short))

    def expert(self) -> str:
        """The next action towards the goal by what has been seen; see `expert.py`."""
        world, view = self._playing()
        return advise(world, view, self._seen, short=self._short)

    def reached(self, episode: Trajectory) -> Sequence[Task]:
        """The same world with the mission to take or go to what the agent did, the latest first.

        Such a task is in no list; `reset` takes it if its world is that of a training task.
        """
        if episode.task.split == "test":
            return []
        self.reset(episode.task, seed=episode.seed)
        wishes: dict[Wish, None] = {}
        for turn in episode.turns:
            world, _ = self._playing()
            held = world.carried
            over = self.step(turn.action).done
            if (wish := _done_by(world, held, plain_words(action_of(turn.action)))) is not None:
                wishes.setdefault(wish)
            if over:
                break
        start, _ = self._wished(episode.task)
        ids = [f"{start}/{wish}" for wish in reversed(wishes)]
        return [episode.task.model_copy(update={"id": id}) for id in ids]

    def close(self) -> None:
        self._world = None

    def _wished(self, task: Task) -> tuple[str, Wish | None]:
        """The id of the task's world, and the wish in place of that world's own mission."""
        level, _, rest = task.id.partition("/")
        number, slash, words = rest.partition("/")
        wish = wish_of(words) if task.split == "train" else None
        return (task.id if slash and wish is None else f"{level}/{number}"), wish

    def _playing(self) -> tuple[World, View]:
        if self._world is None or self._view is None:
            raise EnvError(
                "babyai: no episode is open; expected reset() first, got an action before it or "
                "after done",
                hint="call reset(task, seed=...) before step(), actions() and expert()",
            )
        return self._world, self._view

    def _look(self, world: World, note: str = "") -> str:
        """The text of the new view, which is remembered; in short, with the goal in every turn."""
        view = self._view = look(world)
        self._seen.update(view.cells)
        if self._short:
            parts = [note, short_goal(world.mission), short_view(view, world.mission)]
        else:
            parts = [note, full_view(view)]
        if self._show_actions and not note.startswith(self._list_opening):
            parts.append(self._action_list(view))
        return ("; " if self._short else "\n").join(part for part in parts if part)

    @property
    def _list_opening(self) -> str:
        return "can " if self._short else "Available actions: ["

    def _action_list(self, view: View) -> str:
        listed = ", ".join(available(view, short=self._short))
        return f"{self._list_opening}{listed}" + ("" if self._short else "]")


def short_goal(mission: str) -> str:
    """The goal without articles and filler, as in `pick up red box left`."""
    for phrase, word in _SHORT_PHRASES.items():
        mission = mission.replace(phrase, word)
    return " ".join(word for word in mission.split() if word not in ("the", "a"))


def _done_by(world: World, held: Any, words: str) -> Wish | None:
    """What an action that was just carried out took, or else walked to."""
    if world.carried is not None and world.carried is not held:
        return Wish(PICK, world.carried.color, world.carried.type)
    faced = world.at(ahead_of(world.pose))
    if not words.startswith(GO_TO) or faced is None or faced.type == "wall":
        return None
    return Wish(GO_TO, faced.color, faced.type)


def _carry_out(world: World, move: Move | str) -> str:
    """Do the primitives until one changes nothing; returns what the agent reads about that."""
    if isinstance(move, str):
        return f"Nothing happened: {move}."
    for done, primitive in enumerate(move.primitives):
        changed = world.act(primitive)
        if world.over or primitive == WAIT:
            return ""
        if not changed:
            return f"{'You stopped early' if done else 'Nothing happened'}: {_WHY[primitive]}."
    return ""
