"""Maze: walk to a goal by four moves, seeing only the coordinates and the adjacent walls.

The published task (a text maze of LMRL-Gym, as AgentGym plays it) is the layout `double_t` with 15
turns. Differences: the splits are disjoint, by layout unless `split_by = "start"`, and running
out of turns gives reward 0, not -1. An episode is a function of the task; the seed changes
nothing.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from fedse.envs.action import action_of
from fedse.envs.base import Step
from fedse.envs.maze.layouts import MOVES, Cell, Layout, layout, layout_names
from fedse.envs.options import require_one_of, require_positive, wrong_option
from fedse.errors import EnvError
from fedse.types import Split, Task

TRAINING_LAYOUTS = ("double_t", "u", "medium", "rooms", "random-9x9-1..8")
HELD_OUT_LAYOUTS = ("large", "cross", "spiral", "random-9x9-101..108")

# With split_by = "start", one start in this many is a test task.
STARTS_PER_TEST_TASK = 5

SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You are in a maze and want to stand on its goal cell. A position is two numbers: the "
        "row, which grows downwards, and the column, which grows to the right. Every message "
        "gives the goal, your position and the walls directly beside you.\n"
        "Each turn, make one of four moves: move up, move down, move left, move right. A move "
        "into a wall, or any other text, leaves you where you are and still costs the turn. The "
        "nearest-looking way can be a dead end: sometimes you must first walk away from the "
        "goal.\n"
        "Answer with a short thought and one move, like this:\n"
        "Thought: the goal is below me and nothing blocks that way.\n"
        "Action: move down"
    ),
    "short": "maze",
}

# The published order of walls in the sentence.
_WALL_PHRASES: Mapping[str, str] = {
    "right": "to your right",
    "left": "to your left",
    "up": "above you",
    "down": "below you",
}


class _Place(NamedTuple):
    layout: Layout
    start: Cell


class Maze:
    """An environment (fedse.Env) with an expert that takes the shortest path."""

    def __init__(
        self,
        *,
        layouts: str | Sequence[str] = TRAINING_LAYOUTS,
        held_out: str | Sequence[str] = HELD_OUT_LAYOUTS,
        split_by: Literal["layout", "start"] = "layout",
        max_turns: int = 15,
        max_distance: int | None = None,
        prompt: Literal["full", "short"] = "full",
    ) -> None:
        require_one_of("maze", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        require_one_of("maze", "split_by", split_by, ("layout", "start"))
        require_positive("maze", "max_turns", max_turns)
        if max_distance is not None:
            require_positive("maze", "max_distance", max_distance)
        self.name = "maze"
        self.system_prompt = SYSTEM_PROMPTS[prompt]
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._tasks, self._places = _world(
            layout_names(_as_sequence(layouts)),
            layout_names(_as_sequence(held_out)) if split_by == "layout" else None,
            min(max_turns, max_distance or max_turns),
        )
        self._layout: Layout | None = None
        self._cell: Cell = (0, 0)
        self._turns = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        """Every start from which the goal can be reached in time."""
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._places:
            raise EnvError(
                f"maze has no {task.split} task {task.id!r} of {task.env!r} under these options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._layout, self._cell = self._places[task]
        self._turns = 0
        return Step(self._view(self._layout))

    def step(self, action: str) -> Step:
        maze = self._playing()
        self._turns += 1
        direction = self._direction(action)
        if direction is not None:
            self._cell = maze.moved(self._cell, direction)
        if self._cell == maze.goal:
            self._layout = None
            return Step("Success", reward=1.0, done=True, success=True)
        valid = direction is not None
        if self._turns >= self.max_turns:
            self._layout = None
            return Step("Failure", done=True, valid=valid)
        return Step(self._view(maze), valid=valid)

    def actions(self) -> Sequence[str]:
        """The four moves, in front of a wall or not."""
        return tuple(self._action_text(direction) for direction in MOVES)

    def expert(self) -> str:
        return self._action_text(self._playing().towards_goal(self._cell))

    def close(self) -> None:
        self._layout = None

    def _playing(self) -> Layout:
        if self._layout is None:
            raise EnvError(
                "maze: no episode is open; expected reset() first, got a move before it or after "
                "done",
                hint="call reset(task, seed=...) before step() and expert()",
            )
        return self._layout

    def _action_text(self, direction: str) -> str:
        return direction if self._short else f"move {direction}"

    def _direction(self, text: str) -> str | None:
        first, _, direction = action_of(text).lower().rpartition(" ")
        is_a_move = first == "move" or (self._short and not first)
        return direction if is_a_move and direction in MOVES else None

    def _view(self, maze: Layout) -> str:
        return (short_view if self._short else full_view)(maze, self._cell)


def full_view(maze: Layout, cell: Cell) -> str:
    """The published sentence about goal, position and walls."""
    walls = [words for way, words in _WALL_PHRASES.items() if way not in maze.open_ways(cell)]
    if not walls:
        wall_sentence = "There are no walls near you."
    elif len(walls) == 1:
        wall_sentence = f"There is a wall {walls[0]}."
    else:
        wall_sentence = f"There are walls {', '.join(walls)}."
    return (
        f"The goal is at position {maze.goal[0]}, {maze.goal[1]}. "
        f"Your current position is at position {cell[0]}, {cell[1]}. {wall_sentence}"
    )


def short_view(maze: Layout, cell: Cell) -> str:
    """The same in few tokens: position, the way to the goal as the crow flies, open directions.

    The goal is given relative to the agent, because a tiny model cannot subtract.
    """
    down, right = maze.goal[0] - cell[0], maze.goal[1] - cell[1]
    rows = f" {'down' if down > 0 else 'up'} {abs(down)}" if down else ""
    columns = f" {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
    return f"at {cell[0]} {cell[1]} goal{rows}{columns} open {' '.join(maze.open_ways(cell))}"


def _as_sequence(names: str | Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names


@cache
def _world(
    layouts: tuple[str, ...], held_out: tuple[str, ...] | None, reach: int
) -> tuple[Mapping[Split, Sequence[Task]], Mapping[Task, _Place]]:
    """Both task lists and where each task starts; kept, as a rollout makes many instances."""
    train = [place for name in layouts for place in _places(layout(name), reach)]
    if held_out is None:
        ranked = sorted(train, key=lambda place: place.layout.distances[place.start])
        test = ranked[STARTS_PER_TEST_TASK // 2 :: STARTS_PER_TEST_TASK]
        train = [place for place in train if place not in test]
    else:
        _require_different(layouts, held_out)
        test = [place for name in held_out for place in _places(layout(name), reach)]
    if not train or not test:
        empty = "test" if train else "train"
        raise wrong_option(
            "maze",
            "layouts",
            layouts,
            f"enough for both splits within {reach} moves ({empty} is empty)",
        )
    places = {_task(place, "train"): place for place in train}
    places |= {_task(place, "test"): place for place in test}
    tasks: dict[Split, Sequence[Task]] = {
        "train": tuple(task for task in places if task.split == "train"),
        "test": tuple(task for task in places if task.split == "test"),
    }
    return tasks, places


def _places(maze: Layout, reach: int) -> list[_Place]:
    return [_Place(maze, cell) for cell, far in maze.distances.items() if 0 < far <= reach]


def _task(place: _Place, split: Split) -> Task:
    row, column = place.start
    return Task(env="maze", id=f"{place.layout.name}/{row},{column}", split=split)


def _require_different(layouts: Sequence[str], held_out: Sequence[str]) -> None:
    trained = {layout(name).rows: name for name in layouts}
    for name in held_out:
        if layout(name).rows in trained:
            raise wrong_option(
                "maze",
                "held_out",
                name,
                f"a maze that is not trained on; it is the same as {trained[layout(name).rows]!r}",
            )
