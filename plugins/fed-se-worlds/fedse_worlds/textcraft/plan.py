"""The planner: the actions still needed from any inventory to a crafted goal, and the first one.

A scheme settles one recipe for each item and one item for each kind. Within a scheme the plan is
the shortest: one action per act of crafting, one per raw item that is still lacking. Ways that mix
two recipes of an item, or two items of a kind, are not weighed. After the first action of a plan,
the plan from there is shorter by at least one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import NamedTuple

from fedse_worlds.textcraft.bench import totals
from fedse_worlds.textcraft.recipes import Book, Recipe, Stack, depth_of, tree_of

# Of a goal with more free choices than this, only these schemes are weighed, the easiest first.
MOST_SCHEMES = 64


@dataclass(frozen=True)
class Scheme:
    """Recipes that name no kind; each stands before the recipes of what it uses."""

    recipes: Mapping[str, Recipe]
    """By what they make; the goal's comes first."""

    @property
    def goal(self) -> str:
        return next(iter(self.recipes))


class CraftingPlan(NamedTuple):
    """What is still to be done in a scheme."""

    scheme: Scheme
    batches: Mapping[str, int]
    """Acts of crafting by what they make."""
    lacking: Mapping[str, int]
    """Raw items to be got."""

    @property
    def length(self) -> int:
        """In actions."""
        return sum(self.batches.values()) + len(self.lacking)


@cache
def schemes_of(book: Book, goal: str) -> tuple[Scheme, ...]:
    """The ways to settle every choice on the way to the goal."""
    tree = tree_of(book, goal)
    makable = sorted({recipe.output.item for recipe in tree})
    kinds = sorted({stack.item for recipe in tree for stack in recipe.inputs} & book.kinds.keys())
    choices = [_easiest_first(book, item) for item in makable]
    # A product of products would spell the inner ones out before the first is taken.
    settled = islice(product(*choices, *(book.options(kind) for kind in kinds)), MOST_SCHEMES)
    made = []
    for choice in settled:
        by = {recipe.output.item: recipe for recipe in choice if isinstance(recipe, Recipe)}
        items = [item for item in choice if isinstance(item, str)]
        made.append(_scheme(goal, by, dict(zip(kinds, items, strict=True))))
    return tuple({tuple(scheme.recipes.values()): scheme for scheme in made}.values())


def best_plan(schemes: Sequence[Scheme], inventory: Mapping[str, int]) -> CraftingPlan:
    """The shortest plan, the first of equals."""
    return min((_plan(scheme, inventory) for scheme in schemes), key=lambda plan: plan.length)


def first_action(plan: CraftingPlan, inventory: Mapping[str, int]) -> str:
    """The action to take now: whatever the goal lacks first, or what that lacks, and so on."""
    recipe = plan.scheme.recipes[plan.scheme.goal]
    while True:
        wanted = totals(recipe.inputs)
        lacked = next((i for i, amount in wanted.items() if inventory.get(i, 0) < amount), None)
        if lacked is None:
            return str(recipe)
        if lacked in plan.lacking:
            return f"get {plan.lacking[lacked]} {lacked}"
        recipe = plan.scheme.recipes[lacked]


def _easiest_first(book: Book, item: str) -> list[Recipe]:
    return sorted(
        book.making[item],
        key=lambda recipe: max(depth_of(book, stack.item) for stack in recipe.inputs),
    )


def _plan(scheme: Scheme, inventory: Mapping[str, int]) -> CraftingPlan:
    needed = {scheme.goal: inventory.get(scheme.goal, 0) + 1}
    batches: dict[str, int] = {}
    for item, recipe in scheme.recipes.items():
        missing = max(0, needed.get(item, 0) - inventory.get(item, 0))
        batches[item] = -(-missing // recipe.output.amount)
        for amount, name in recipe.inputs:
            needed[name] = needed.get(name, 0) + amount * batches[item]
    lacking = {
        item: amount - inventory.get(item, 0)
        for item, amount in needed.items()
        if item not in scheme.recipes and amount > inventory.get(item, 0)
    }
    return CraftingPlan(scheme, batches, lacking)


def _scheme(goal: str, by: Mapping[str, Recipe], of: Mapping[str, str]) -> Scheme:
    settled: dict[str, Recipe] = {}

    def settle(item: str) -> None:
        if item in settled or item not in by:
            return
        output, ingredients = by[item]
        inputs = tuple(Stack(amount, of.get(name, name)) for amount, name in ingredients)
        for stack in inputs:
            settle(stack.item)
        settled[item] = Recipe(output, inputs)

    settle(goal)
    return Scheme(dict(reversed(settled.items())))
