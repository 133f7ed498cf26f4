"""WebShop-style buying: search a shop, open a product, choose its options, buy what is wanted.

The published task (WebShop, as AgentGym plays it) has 1,000 products, options as each product has
them, 10 results a page and 10 turns; nothing but `Buy Now` is rewarded, and success is the full
reward. Departures from it: the catalogue is synthetic, the splits share no product, and what was
chosen is shown. An episode is a function of the task; the seed changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from fedse import EnvError, Step, Task, Trajectory
from fedse.envs import Split, action_of, require_one_of, require_positive, wrong_option
from fedse_worlds.webshop.catalogue import Goal, Product, catalogue, goals
from fedse_worlds.webshop.pages import (
    BUY,
    NEXT,
    PREVIOUS,
    SEPARATOR,
    Page,
    buttons,
    full_view,
    item_of,
    short_view,
)
from fedse_worlds.webshop.reward import EXACT, published, reward
from fedse_worlds.webshop.search import Index

PRODUCTS = range(60, 10_001)
OPTION_AXES = range(3)
MOST_HITS = 50
# Results per page: the published number, and what a tiny model's context can hold.
PAGE_SIZES: Mapping[str, int] = {"full": 10, "short": 4}

SYSTEM_PROMPTS: Mapping[str, str] = {
    "full": (
        "You are shopping online. Every message is a page of the shop: first the instruction that "
        "says what to buy, then the texts and buttons of the page, separated by [SEP].\n"
        "Each turn, do one of two things: search[words] looks for products{wish}, from any page; "
        "click[button] presses a button of the current page, named exactly as shown. A product is "
        "opened by its {named}. On its page, choose the options the instruction asks for, then "
        "click Buy Now: that ends the visit. You have {turns} turns, and only what you buy counts: "
        "the kind of product, its attributes, the options chosen and a price within the limit. A "
        "button that is not there does nothing and still costs the turn.\n"
        "Answer with a short thought and one action, like this:\n"
        "Thought: the second product has both attributes and costs less than the limit.\n"
        "Action: click[{example}]"
    ),
    "short": "shop",
}
# What is searched for without its words being repeated.
WISH = "wish"
# How a search and a result are named, by whether words must be copied.
HOW_TO: Mapping[bool, Mapping[str, str]] = {
    True: {"wish": "", "named": "id", "example": "p17"},
    False: {
        "wish": f" and search[{WISH}] for what you must buy",
        "named": "number on the page",
        "example": "2",
    },
}

_ACTION = re.compile(r"(search|click)\s?\[(.*)\]", re.IGNORECASE)


class _Shop(NamedTuple):
    products: Sequence[Product]
    search: Index
    tasks: Mapping[Split, Sequence[Task]]
    goals: Mapping[Task, Goal]


class WebShop:
    """An environment (fedse.Env) with an expert that buys what earns the full reward."""

    def __init__(
        self,
        *,
        products: int = 200,
        option_axes: int = 1,
        max_turns: int = 10,
        prompt: Literal["full", "short"] = "full",
        page_size: int | None = None,
        strict_options: bool = False,
        copying: bool = True,
        tasks_per_split: Sequence[int] = (400, 100),
    ) -> None:
        require_one_of("webshop", "prompt", prompt, tuple(SYSTEM_PROMPTS))
        _require_within("products", products, PRODUCTS)
        _require_within("option_axes", option_axes, OPTION_AXES)
        require_positive("webshop", "max_turns", max_turns)
        if len(tasks_per_split) != 2:
            raise wrong_option("webshop", "tasks_per_split", tasks_per_split, "[train, test]")
        for count in tasks_per_split:
            require_positive("webshop", "tasks_per_split", count)
        size = PAGE_SIZES[prompt] if page_size is None else page_size
        _require_within("page_size", size, range(1, MOST_HITS + 1))
        self.name = "webshop"
        self.system_prompt = SYSTEM_PROMPTS[prompt].format(turns=max_turns, **HOW_TO[copying])
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._agreement = EXACT if strict_options else published()
        train, test = tasks_per_split
        self._shop = _shop(products, option_axes, strict_options, train, test)
        self._copying = copying
        self._start = Page(size=size, numbered=not copying)
        self._goal: Goal | None = None
        self._page = self._start
        self._opened = set[Product]()
        self._turns = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        """As many as `tasks_per_split` says, or fewer if there are not as many different goals."""
        return self._shop.tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._shop.goals:
            raise EnvError(
                f"webshop has no {task.split} task {task.id!r} of {task.env!r} under these options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._goal = self._shop.goals[task]
        self._page, self._opened, self._turns = self._start, set(), 0
        return Step(self._view(self._goal))

    def step(self, action: str) -> Step:
        goal = self._open_goal()
        self._turns += 1
        valid = _ACTION.fullmatch(action_of(action)) is not None
        self._page = self._after(action)
        if self._page.product is not None:
            self._opened.add(self._page.product)
        if self._page.place == "bought":
            values = [value for _, value in self._page.chosen]
            return self._end(reward(item_of(self._page), values, goal, self._agreement))
        if self._turns >= self.max_turns:
            return self._end(0.0)._replace(valid=valid)
        return Step(self._view(goal), valid=valid)

    def actions(self) -> Sequence[str]:
        """Every button of the page and a search for the goal; at the start one for its kind too."""
        goal = self._open_goal()
        actions = [self._search(goal), *(f"click[{label}]" for label in buttons(self._page))]
        if self._page.place == "search":
            return [f"search[{goal.product.kind}]", *actions]
        return actions

    def expert(self) -> str:
        """The next action towards buying a product that meets the goal, from any page.

        It opens what looks right in the list, so that the list alone explains its choice, and
        goes back from a product that turns out not to have what is wanted.
        """
        goal, page = self._open_goal(), self._page
        promising = [label for label, hit in page.labels.items() if self._promises(hit, goal)]
        if page.product is not None and goal.met_by(page.product):
            return f"click[{_next_choice(page, goal) if page.place == 'item' else PREVIOUS}]"
        if promising and page.place == "results":
            return f"click[{promising[0]}]"
        if promising and page.place == "item":
            return f"click[{PREVIOUS}]"
        if page.query != goal.query:
            return self._search(goal)
        following = page._replace(number=page.number + 1).shown_hits
        if page.place == "results" and any(self._promises(hit, goal) for hit in following):
            return f"click[{NEXT}]"
        return f"search[{goal.product.title}]"

    def reached(self, episode: Trajectory) -> Sequence[Task]:
        """The training tasks that the purchase meets in full, those nearest to the searches first.

        No task of the test split is among them, also where the product is one of its products.
        """
        self.reset(episode.task, seed=episode.seed)
        searched = set[str]()
        for turn in episode.turns:
            self._page = self._after(turn.action)
            searched |= set(self._page.query.split())
        if self._page.place != "bought":
            return []
        bought, values = item_of(self._page), [value for _, value in self._page.chosen]
        goal_of = {task: self._shop.goals[task] for task in self.tasks("train")}
        met = [t for t, g in goal_of.items() if reward(bought, values, g, self._agreement) == 1.0]
        return sorted(met, key=lambda task: -len(searched & set(goal_of[task].query.split())))

    def close(self) -> None:
        self._goal = None

    def _open_goal(self) -> Goal:
        if self._goal is None:
            raise EnvError(
                "webshop: no episode is open; expected reset() first, got an action before it or "
                "after done",
                hint="call reset(task, seed=...) before step() and expert()",
            )
        return self._goal

    def _search(self, goal: Goal) -> str:
        return f"search[{goal.query if self._copying else WISH}]"

    def _promises(self, hit: Product, goal: Goal) -> bool:
        return goal.met_by(hit) if hit in self._opened else goal.looks_met_by(hit)

    def _after(self, text: str) -> Page:
        """The page an action leads to; the same page where it is none."""
        match = _ACTION.fullmatch(action_of(text))
        if match is None:
            return self._page
        verb, words = match.group(1).lower(), match.group(2).strip()
        if verb == "click":
            leads = {label.lower(): page for label, page in buttons(self._page).items()}
            return leads.get(words.lower(), self._page)
        if words == WISH and not self._copying:
            words = self._open_goal().query
        if not words:
            return self._page
        numbers = self._shop.search.best(words, MOST_HITS)
        hits = tuple(self._shop.products[number] for number in numbers)
        return self._start._replace(place="results", query=words, hits=hits)

    def _view(self, goal: Goal) -> str:
        return (short_view if self._short else full_view)(self._page, goal)

    def _end(self, earned: float) -> Step:
        bought = self._page.place == "bought"
        self._goal = None
        if self._short:
            observation = f"score {earned:.2f}"
        else:
            why = "Thank you for your order" if bought else "You have no turns left"
            observation = SEPARATOR.join((why, "Your score (min 0.0, max 1.0)", f"{earned:.2f}"))
        return Step(observation, reward=earned, done=True, success=earned == 1.0)


def _next_choice(page: Page, goal: Goal) -> str:
    chosen = [value for _, value in page.chosen]
    return next((value for value in goal.values if value not in chosen), BUY)


def _require_within(option: str, got: object, allowed: range) -> None:
    if not isinstance(got, int) or isinstance(got, bool) or got not in allowed:
        expected = f"a whole number from {allowed.start} to {allowed.stop - 1}"
        raise wrong_option("webshop", option, got, expected)


@cache
def _shop(count: int, option_axes: int, strict: bool, train: int, test: int) -> _Shop:
    """The shop and both task lists; kept, as a rollout makes many instances."""
    products = catalogue(count, option_axes)
    rules = f"{count}x{option_axes}" + ("-strict" if strict else "")
    tasks: dict[Split, Sequence[Task]] = {}
    all_goals: dict[Task, Goal] = {}
    sizes: Mapping[Split, int] = {"train": train, "test": test}
    for split, size in sizes.items():
        goal_of = {
            Task(env="webshop", id=f"{rules}/{_goal_id(goal)}", split=split): goal
            for goal in goals(products, split, size)
        }
        tasks[split], all_goals = tuple(goal_of), all_goals | goal_of
    return _Shop(products, _index(count, option_axes), tasks, all_goals)


@cache
def _index(count: int, option_axes: int) -> Index:
    return Index([product.document for product in catalogue(count, option_axes)])


def _goal_id(goal: Goal) -> str:
    values = ",".join(value.replace(" ", "-") for value in goal.values)
    return "/".join(part for part in (goal.product.id, values, str(goal.limit)) if part)
