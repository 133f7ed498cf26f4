"""TextCraft-style crafting: make a goal item from raw ones, with only some recipes of use.

The published task (TextCraft of ADaPT, as AgentGym plays it): the first message lists every recipe
the goal can need and up to 10 others in random order; 20 turns; reward 1 when the goal is crafted.
Departures from it: the recipe book is our own unless `book = "textcraft"`; goals that cannot be
made in time are left out; the splits share no goal (a test goal may be a part on the way to a
training goal); where too few recipes share an ingredient, others that share a word fill the list;
a kind of item is listed as `any x`; the number of things made must be right too; the short prompt
answers every action with the whole inventory. An episode is a function of (task, seed): the goal
follows from the task, the listed recipes from both.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Literal

from fedse import EnvError, Step, Task, Trajectory, seed_of
from fedse.envs import Split, action_of, require_one_of, require_positive, wrong_option
from fedse_worlds.textcraft.bench import ActionResult, Workbench
from fedse_worlds.textcraft.plan import best_plan, first_action, schemes_of
from fedse_worlds.textcraft.published import published_book
from fedse_worlds.textcraft.recipes import (
    Book,
    Recipe,
    Stack,
    depth_of,
    distractors_of,
    own_book,
    sorted_recipes,
    tree_of,
)

BOOKS = {"own": own_book, "textcraft": published_book}

SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You are in a workshop and must craft one goal item. The first message lists crafting "
        "commands and the goal; some of the commands are of no use for it. Raw items, which "
        "nothing crafts, can be got from the store in any number.\n"
        "Each turn, take one of three actions:\n"
        "get N item - take N of an item from the store\n"
        "craft N item using N item, N item - follow one listed command once, with its exact "
        "numbers, using up what you have\n"
        "inventory - see what you have\n"
        "Where a command asks for 'any board', name one board that you have, such as 'ash board'. "
        "Craft the parts of the goal before the goal itself.\n"
        "Answer with a short thought and one action, like this:\n"
        "Thought: the tray needs glue, which nothing crafts.\n"
        "Action: get 1 glue"
    ),
    "short": "craft",
}

_FULL_ANSWERS: Mapping[str, str] = {
    "got": "You took {}.",
    "made": "You made {}.",
    "cannot get": "You cannot take {} from the store.",
    "too little": "You do not have what you named to craft {}.",
    "no recipe": "No command crafts {} that way.",
    "no number": "Write each thing you use as a number and an item, not as '{}'.",
    "not understood": "'{}' is none of the three actions.",
}
# An answer repeats at most this many characters of the agent's text.
LONGEST_QUOTE = 60


class TextCraft:
    """An environment (fedse.Env) with an expert that plans from the inventory."""

    def __init__(
        self,
        *,
        book: Literal["own", "textcraft"] = "own",
        depths: Sequence[int] = (1, 2, 3, 4),
        distractors: int = 10,
        max_turns: int = 20,
        prompt: Literal["full", "short"] = "full",
        tasks_per_split: Sequence[int] = (400, 100),
        held_out: float = 0.2,
    ) -> None:
        require_one_of("textcraft", "book", book, tuple(BOOKS))
        require_one_of("textcraft", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        require_positive("textcraft", "max_turns", max_turns)
        _require_numbers(depths, distractors, tasks_per_split, held_out)
        self.name = "textcraft"
        self.system_prompt = SYSTEM_PROMPTS[prompt]
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._distractors = distractors
        self._book = BOOKS[book]()
        train, test = tasks_per_split
        self._tasks, self._goals = _world(
            self._book, tuple(sorted(set(depths))), distractors, max_turns, held_out, train, test
        )
        self._goal: str | None = None
        self._bench = Workbench(self._book)
        self._listed: Sequence[Recipe] = ()
        self._turns = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        """One task per goal that can be crafted in time."""
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._goals:
            raise EnvError(
                f"textcraft has no {task.split} task {task.id!r} of {task.env!r} under these "
                "options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._goal, self._turns = self._goals[task], 0
        self._bench = Workbench(self._book)
        random = Random(seed_of("textcraft", task.id, seed))
        self._listed = _draw_recipes(self._book, self._goal, self._distractors, random)
        return Step(self._first_message(self._goal))

    def step(self, action: str) -> Step:
        goal = self._playing()
        self._turns += 1
        answer = self._bench.act(action_of(action))
        won = answer.made == goal
        over = won or self._turns >= self.max_turns
        observation = (self._short_answer if self._short else self._full_answer)(answer)
        if over:
            self._goal = None
            end = "Success" if won else "Failure"
            observation = end if self._short else f"{observation} {end}"
        valid = answer.event != "not understood"
        return Step(observation, reward=float(won), done=over, success=won, valid=valid)

    def actions(self) -> Sequence[str]:
        """Each listed recipe, what it asks for that can be got, and a look at the inventory."""
        self._playing()
        crafts = [self._choose_items(recipe) for recipe in self._listed]
        gets = [f"get {s}" for r in crafts for s in r.inputs if s.item in self._book.raw]
        return tuple(dict.fromkeys([*map(str, crafts), *gets, "inventory"]))

    def expert(self) -> str:
        """The first action of the shortest plan from the inventory as it is."""
        inventory = self._bench.inventory
        plan = best_plan(schemes_of(self._book, self._playing()), inventory)
        return first_action(plan, inventory)

    def reached(self, episode: Trajectory) -> Sequence[Task]:
        """The training tasks whose goal was crafted on the way, the latest first."""
        task_of = {goal: task for task, goal in self._goals.items() if task.split == "train"}
        bench = Workbench(self._book)
        made = [bench.act(action_of(turn.action)).made for turn in episode.turns]
        return [task_of[item] for item in reversed(dict.fromkeys(made)) if item in task_of]

    def close(self) -> None:
        self._goal = None

    def _playing(self) -> str:
        if self._goal is None:
            raise EnvError(
                "textcraft: no episode is open; expected reset() first, got an action before it "
                "or after done",
                hint="call reset(task, seed=...) before step(), actions() and expert()",
            )
        return self._goal

    def _choose_items(self, recipe: Recipe) -> Recipe:
        """The recipe with an item for each kind: one in the inventory, or else the easiest."""
        inputs = []
        for amount, name in recipe.inputs:
            items = self._book.options(name)
            held = (item for item in items if self._bench.inventory[item] >= amount)
            inputs.append(Stack(amount, next(held, items[0])))
        return Recipe(recipe.output, tuple(inputs))

    def _first_message(self, goal: str) -> str:
        if self._short:
            return f"{'. '.join(map(str, self._listed))}. goal {goal}"
        commands = "\n".join(map(str, self._listed))
        return f"Crafting commands:\n{commands}\n\nGoal: craft {goal}."

    def _full_answer(self, answer: ActionResult) -> str:
        if answer.event == "looked":
            return f"You have {self._inventory_text()}."
        return _FULL_ANSWERS[answer.event].format(answer.about[:LONGEST_QUOTE])

    def _short_answer(self, answer: ActionResult) -> str:
        done = answer.event in ("got", "made", "looked")
        return f"{'have' if done else 'no. have'} {self._inventory_text()}"

    def _inventory_text(self) -> str:
        held = sorted(self._bench.inventory.items())
        return ", ".join(f"{amount} {item}" for item, amount in held) or "nothing"


def _require_numbers(
    depths: Sequence[int], distractors: int, tasks_per_split: Sequence[int], held_out: float
) -> None:
    if isinstance(depths, int | str) or not depths:
        raise wrong_option("textcraft", "depths", depths, "a list of depths, such as [1, 2]")
    for depth in depths:
        require_positive("textcraft", "depths", depth)
    if not isinstance(distractors, int) or isinstance(distractors, bool) or distractors < 0:
        raise wrong_option("textcraft", "distractors", distractors, "a whole number, 0 or more")
    if len(tasks_per_split) != 2:
        raise wrong_option("textcraft", "tasks_per_split", tasks_per_split, "[train, test]")
    for count in tasks_per_split:
        require_positive("textcraft", "tasks_per_split", count)
    if not isinstance(held_out, float) or not 0 < held_out < 1:
        raise wrong_option("textcraft", "held_out", held_out, "a share between 0 and 1")


def _draw_recipes(book: Book, goal: str, distractors: int, random: Random) -> Sequence[Recipe]:
    """The goal's whole tree and so many other recipes, in random order."""
    near, alike = distractors_of(book, goal)
    others = random.sample(near, min(distractors, len(near)))
    others += random.sample(alike, min(distractors - len(others), len(alike)))
    listed = [*sorted_recipes(tree_of(book, goal)), *others]
    random.shuffle(listed)
    return listed


@cache
def _world(
    book: Book,
    depths: Sequence[int],
    distractors: int,
    max_turns: int,
    held_out: float,
    train: int,
    test: int,
) -> tuple[Mapping[Split, Sequence[Task]], Mapping[Task, str]]:
    """Both task lists and the goal of each task; kept, as a rollout makes many instances."""
    sizes: Mapping[Split, int] = {"train": train, "test": test}
    tasks: dict[Split, Sequence[Task]] = {}
    goals: dict[Task, str] = {}
    for split, pool in _split(book, held_out).items():
        fitting = [
            goal
            for goal in pool
            if depth_of(book, goal) in depths
            and best_plan(schemes_of(book, goal), {}).length <= max_turns
        ]
        if not fitting:
            raise wrong_option(
                "textcraft",
                "depths",
                list(depths),
                f"depths with goals that {max_turns} turns can craft ({split} is empty)",
            )
        goal_of = {
            Task(env="textcraft", id=f"{book.name}-{distractors}/{goal}", split=split): goal
            for goal in fitting[: sizes[split]]
        }
        tasks[split], goals = tuple(goal_of), goals | goal_of
    return tasks, goals


@cache
def _split(book: Book, held_out: float) -> Mapping[Split, Sequence[str]]:
    """Each goal's split, whatever the other options: the same share of every depth is for test."""
    by_depth: dict[int, list[str]] = {}
    for goal in sorted(book.making):
        by_depth.setdefault(depth_of(book, goal), []).append(goal)
    pools: dict[Split, list[str]] = {"train": [], "test": []}
    for depth, goals in sorted(by_depth.items()):
        Random(seed_of("textcraft goals", book.name, depth)).shuffle(goals)
        for_test = max(1, round(held_out * len(goals)))
        pools["test"] += goals[:for_test]
        pools["train"] += goals[for_test:]
    for split, goals in pools.items():
        Random(seed_of("textcraft order", book.name, split)).shuffle(goals)
    return pools
