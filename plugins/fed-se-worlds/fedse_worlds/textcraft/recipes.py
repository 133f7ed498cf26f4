"""Recipe books: what is made of what, how deep, and which recipes a goal can need.

A book is a plain value: the same recipes in any order give the same book. A name such as
`any board` is a kind; each item of the kind will do where a recipe asks for it. No item can be
made, however indirectly, from itself.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple

_STACK = re.compile(r"([0-9]{1,3}) ([a-z0-9 ]*[a-z0-9])")
KIND = "any "


class Stack(NamedTuple):
    """Some of one item."""

    amount: int
    item: str

    def __str__(self) -> str:
        return f"{self.amount} {self.item}"


class Recipe(NamedTuple):
    """What one act of crafting makes and what it uses up."""

    output: Stack
    inputs: tuple[Stack, ...]

    def __str__(self) -> str:
        """The action that follows the recipe, unless an input is a kind."""
        return f"craft {self.output} using {', '.join(map(str, self.inputs))}"


@dataclass(frozen=True, eq=False)
class Book:
    """Recipes in the order of their names, and the items of each kind."""

    name: str
    recipes: tuple[Recipe, ...]
    kinds: Mapping[str, tuple[str, ...]]

    @cached_property
    def making(self) -> Mapping[str, tuple[Recipe, ...]]:
        """For every item that can be crafted, its recipes."""
        return _group((recipe.output.item, recipe) for recipe in self.recipes)

    @cached_property
    def using(self) -> Mapping[str, tuple[Recipe, ...]]:
        """For every item or kind, the recipes that ask for it by this name."""
        return _group((stack.item, recipe) for recipe in self.recipes for stack in recipe.inputs)

    @cached_property
    def raw(self) -> frozenset[str]:
        """The items that no recipe makes."""
        members = {item for items in self.kinds.values() for item in items}
        return frozenset({*self.using, *members} - {*self.making, *self.kinds})

    def options(self, name: str) -> tuple[str, ...]:
        """The items that will do where a recipe names `name`, the easiest first."""
        members = self.kinds.get(name, (name,))
        return tuple(sorted(members, key=lambda item: (depth_of(self, item), item)))


def make_book(name: str, recipes: Iterable[Recipe], kinds: Mapping[str, Sequence[str]]) -> Book:
    """The book of these recipes, less those that would let an item be made from itself."""
    made_from: dict[str, set[str]] = {kind: set(items) for kind, items in kinds.items()}
    kept = []
    for recipe in sorted_recipes(set(recipes)):
        inputs = {stack.item for stack in recipe.inputs}
        if recipe.output.item not in _reachable(made_from, inputs):
            made_from.setdefault(recipe.output.item, set()).update(inputs)
            kept.append(recipe)
    return Book(name, tuple(kept), {kind: tuple(sorted(kinds[kind])) for kind in sorted(kinds)})


@cache
def own_book() -> Book:
    """The book that ships with the package (scripts/make_recipes.py)."""
    lines = files("fedse_worlds.textcraft").joinpath("recipes.txt").read_text("utf-8").splitlines()
    recipes = [parse_recipe(line) for line in lines]
    makable = {recipe.output.item for recipe in recipes}
    used = {stack.item for recipe in recipes for stack in recipe.inputs}
    kinds = {
        name: [item for item in makable if item.endswith(name.removeprefix("any"))]
        for name in used
        if name.startswith(KIND)
    }
    return make_book("own", recipes, kinds)


def parse_stack(text: str) -> Stack | None:
    """`2 ash board` as a stack; None when it is not a number up to 999 and a name."""
    match = _STACK.fullmatch(text.strip())
    return Stack(int(match[1]), match[2]) if match else None


def parse_recipe(line: str) -> Recipe:
    """A line of a book, such as `1 ash tray using 2 ash board, 1 glue`."""
    made, _, used = line.partition(" using ")
    output, *inputs = (parse_stack(text) for text in (made, *used.split(",")))
    if output is None or None in inputs:
        raise ValueError(f"recipe {line!r}: expected 'N item using N item, N item'")
    return Recipe(output, tuple(stack for stack in inputs if stack is not None))


@cache
def depth_of(book: Book, name: str) -> int:
    """0 for a raw item; else one more than the deepest input of its shallowest recipe."""
    if name in book.kinds:
        return min(depth_of(book, item) for item in book.kinds[name])
    depths = (
        1 + max(depth_of(book, stack.item) for stack in recipe.inputs)
        for recipe in book.making.get(name, ())
    )
    return min(depths, default=0)


@cache
def tree_of(book: Book, name: str) -> frozenset[Recipe]:
    """Every recipe that can have a part in making `name`."""
    if name in book.kinds:
        return frozenset[Recipe]().union(*(tree_of(book, item) for item in book.kinds[name]))
    own = book.making.get(name, ())
    inputs = (tree_of(book, stack.item) for recipe in own for stack in recipe.inputs)
    return frozenset(own).union(*inputs)


@cache
def distractors_of(book: Book, name: str) -> tuple[tuple[Recipe, ...], tuple[Recipe, ...]]:
    """Recipes with no part in making `name`, in two groups: the near and those only alike in name.

    The near use something that `name` needs; the alike make something with a word of its name.
    """
    tree, words = tree_of(book, name), set(name.split())
    needed = {stack.item for recipe in tree for stack in recipe.inputs}
    near = {recipe for item in needed for recipe in book.using[item]} - tree
    alike = {recipe for recipe in book.recipes if words & set(recipe.output.item.split())}
    return tuple(sorted_recipes(near)), tuple(sorted_recipes(alike - near - tree))


def sorted_recipes(recipes: Iterable[Recipe]) -> list[Recipe]:
    """By the name of what is made, then by what is used: an order free of hashing."""
    return sorted(recipes, key=lambda recipe: (recipe.output.item, str(recipe)))


def _group(pairs: Iterable[tuple[str, Recipe]]) -> Mapping[str, tuple[Recipe, ...]]:
    groups: dict[str, dict[Recipe, None]] = {}
    for name, recipe in pairs:
        groups.setdefault(name, {})[recipe] = None
    return {name: tuple(recipes) for name, recipes in groups.items()}


def _reachable(made_from: Mapping[str, set[str]], starts: set[str]) -> set[str]:
    seen, border = set(starts), list(starts)
    while border:
        new = made_from.get(border.pop(), set()) - seen
        seen |= new
        border += new
    return seen
