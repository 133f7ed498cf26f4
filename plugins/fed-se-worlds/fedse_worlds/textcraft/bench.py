"""The workbench: three actions on an inventory, each answered with what happened.

`get N item`, `craft N item using N item, N item` and `inventory`, as published with TextCraft.
Only an item without a recipe can be got; one act of crafting follows one recipe once, with the
numbers it gives. An action that fails changes nothing, and no number is ever negative.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fedse_worlds.textcraft.recipes import Book, Recipe, Stack, parse_stack

Event = Literal[
    "got",
    "made",
    "looked",
    "cannot get",
    "too little",
    "no recipe",
    "no number",
    "not understood",
]
# The published clients delete everything else before they read an action.
_NOT_READ = re.compile(r"[^a-z0-9, ]")


class ActionResult(NamedTuple):
    """What came of an action, and the item or the words it was about."""

    event: Event
    about: str = ""
    made: str | None = None
    """The item that was crafted."""


class Workbench:
    """The inventory of one episode and what can be done to it."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.inventory: Counter[str] = Counter()

    def act(self, action: str) -> ActionResult:
        """Do what the text says."""
        command = " ".join(_NOT_READ.sub("", action.lower()).split())
        verb, _, rest = command.partition(" ")
        if command == "inventory":
            return ActionResult("looked")
        if verb == "get":
            return self._get(rest)
        if verb == "craft" and " using " in rest:
            made, _, used = rest.partition(" using ")
            return self._craft(made, used.split(","))
        return ActionResult("not understood", command)

    def _get(self, wanted: str) -> ActionResult:
        stack = parse_stack(wanted)
        if stack is None or stack.amount < 1 or stack.item not in self._book.raw:
            return ActionResult("cannot get", wanted)
        self.inventory[stack.item] += stack.amount
        return ActionResult("got", str(stack))

    def _craft(self, made: str, used: Sequence[str]) -> ActionResult:
        output = parse_stack(made) or Stack(1, made)
        given = []
        for text in used:
            stack = parse_stack(text)
            if stack is None:
                return ActionResult("no number", text.strip())
            given.append(stack)
        spent = totals(given)
        if any(self.inventory[item] < amount for item, amount in spent.items()):
            return ActionResult("too little", output.item)
        recipes = self._book.making.get(output.item, ())
        if not any(r.output == output and fits(self._book, r, given) for r in recipes):
            return ActionResult("no recipe", str(output))
        self.inventory[output.item] += output.amount
        self.inventory.subtract(spent)
        self.inventory = +self.inventory
        return ActionResult("made", str(output), made=output.item)


def fits(book: Book, recipe: Recipe, given: Sequence[Stack]) -> bool:
    """Each input of the recipe is met by one stack of its exact amount, and none is left over."""
    return len(given) == len(recipe.inputs) and _matches(book, recipe.inputs, given)


def totals(stacks: Sequence[Stack]) -> Mapping[str, int]:
    """How many of each item, in the order they are first named."""
    sums: dict[str, int] = {}
    for amount, item in stacks:
        sums[item] = sums.get(item, 0) + amount
    return sums


def _matches(book: Book, inputs: Sequence[Stack], given: Sequence[Stack]) -> bool:
    if not inputs:
        return True
    (amount, name), *others = inputs
    return any(
        stack.amount == amount
        and stack.item in book.kinds.get(name, (name,))
        and _matches(book, others, [*given[:place], *given[place + 1 :]])
        for place, stack in enumerate(given)
    )
