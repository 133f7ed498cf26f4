"""Crafting without an episode: laws of the recipe books, the workbench and the plans."""

import runpy
from collections import Counter
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse_worlds.textcraft.bench import Workbench
from fedse_worlds.textcraft.plan import best_plan, first_action, schemes_of
from fedse_worlds.textcraft.published import published_book
from fedse_worlds.textcraft.recipes import (
    Book,
    depth_of,
    distractors_of,
    make_book,
    own_book,
    parse_recipe,
    sorted_recipes,
    tree_of,
)
from tests.needs import optional

ROOT = Path(__file__).parents[3]
GOALS = st.sampled_from(sorted(own_book().making))
needs_published = optional("textcraft")


def plan_length(book: Book, goal: str, inventory: dict[str, int]) -> int:
    return best_plan(schemes_of(book, goal), inventory).length


def tiny_book(*lines: str, **kinds: list[str]) -> Book:
    named = {f"any {kind}": items for kind, items in kinds.items()}
    return make_book("tiny", [parse_recipe(line) for line in lines], named)


# The book.


def test_the_shipped_book_is_what_the_script_writes() -> None:
    made = list(runpy.run_path(str(ROOT / "scripts" / "make_recipes.py"))["lines"]())
    shipped = (
        files("fedse_worlds.textcraft").joinpath("recipes.txt").read_text("utf-8").splitlines()
    )
    assert sorted(made) == sorted(shipped)
    assert [parse_recipe(line) for line in shipped] == list(own_book().recipes)


def test_the_book_has_380_items_over_four_depths() -> None:
    book = own_book()
    depths = Counter(depth_of(book, item) for item in book.making)
    assert depths == {1: 92, 2: 136, 3: 92, 4: 60}
    assert len(book.recipes) == len(book.making) == 380
    assert len(book.raw) == 70


def test_nothing_is_made_from_itself_and_everything_comes_from_raw_items() -> None:
    book = own_book()
    parts = {item: {s.item for r in book.making[item] for s in r.inputs} for item in book.making}
    order = list(
        TopologicalSorter(parts | {k: set(v) for k, v in book.kinds.items()}).static_order()
    )
    assert {item for item in order if item not in parts and item not in book.kinds} == book.raw
    assert len(book.raw) == 70
    assert all(depth_of(book, item) == 0 for item in book.raw)


def test_names_are_short_and_amounts_small() -> None:
    book = own_book()
    words = {word for item in {*book.making, *book.raw} for word in item.split()}
    assert len(words) == 167
    assert all(word.isascii() and word.isalpha() and len(word) <= 7 for word in words)
    assert len(book.recipes) == 380
    for recipe in book.recipes:
        assert len(recipe.output.item.split()) == 2
        assert 1 <= len(recipe.inputs) <= 2
        assert all(1 <= stack.amount <= 3 for stack in (recipe.output, *recipe.inputs))
        assert len({stack.item for stack in recipe.inputs}) == len(recipe.inputs)


def test_each_kind_has_an_item_of_every_material_of_its_trade() -> None:
    assert {kind: len(items) for kind, items in own_book().kinds.items()} == dict.fromkeys(
        ("any board", "any cheese", "any cloth", "any cord", "any dough", "any loaf", "any tray"), 4
    )


def test_every_goal_can_be_made_in_13_actions() -> None:
    book = own_book()
    lengths: dict[int, list[int]] = {}
    for goal in book.making:
        lengths.setdefault(depth_of(book, goal), []).append(plan_length(book, goal, {}))
    spans = {depth: (min(found), max(found)) for depth, found in lengths.items()}
    assert spans == {1: (2, 3), 2: (3, 5), 3: (5, 9), 4: (7, 13)}


@given(st.permutations(own_book().recipes[:40]))
def test_a_book_does_not_depend_on_the_order_of_its_recipes(recipes: Any) -> None:
    assert make_book("x", recipes, {}).recipes == own_book().recipes[:40]


def test_recipes_that_close_a_circle_are_left_out() -> None:
    book = tiny_book("1 b using 1 a", "1 c using 1 any x", "1 a using 1 c", x=["b"])
    assert [recipe.output.item for recipe in book.recipes] == ["a", "b"]
    assert (depth_of(book, "a"), depth_of(book, "b")) == (1, 2)


def test_depth_is_that_of_the_shallowest_way() -> None:
    book = tiny_book("1 b using 1 a", "1 c using 1 b", "1 c using 2 a", "1 d using 1 any x, 1 a",
                     x=["b", "c"])  # fmt: skip
    assert [depth_of(book, item) for item in "abcd"] == [0, 1, 1, 2]
    assert len(tree_of(book, "d")) == 4


@pytest.mark.parametrize("line", ["", "ash using 1 oak", "1 ash using", "1 ash using oak"])
def test_a_line_that_is_no_recipe_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="expected 'N item using"):
        parse_recipe(line)


@given(GOALS)
def test_distractors_have_no_part_in_the_goal(goal: str) -> None:
    book = own_book()
    near, alike = distractors_of(book, goal)
    needed = {stack.item for recipe in tree_of(book, goal) for stack in recipe.inputs}
    assert not {*near, *alike} & tree_of(book, goal)
    assert near
    assert all(needed & {stack.item for stack in recipe.inputs} for recipe in near)
    assert len(near) + len(alike) >= 9


# The workbench.

ANY_ACTION = st.one_of(
    st.text(),
    st.builds("get {} {}".format, st.integers(0, 5), st.sampled_from(["ash", "glue", "ash board"])),
    st.sampled_from([
        "craft 2 ash board using 1 ash", "craft 3 ash peg using 1 ash", "inventory",
        "craft 1 ash tray using 2 ash board, 1 glue", "craft 1 ash toy using 2 ash peg, 1 glue",
    ]),
)  # fmt: skip


@given(st.lists(ANY_ACTION, min_size=1, max_size=20))
def test_an_inventory_changes_by_one_recipe_or_one_gift_or_not_at_all(actions: list[str]) -> None:
    book, bench = own_book(), Workbench(own_book())
    for action in actions:
        before = Counter(bench.inventory)
        answer = bench.act(action)
        assert all(amount > 0 for amount in bench.inventory.values())
        gained, spent = bench.inventory - before, before - bench.inventory
        if answer.event == "made":
            (recipe,) = book.making[str(answer.made)]
            assert gained == {recipe.output.item: recipe.output.amount}
            assert spent == {stack.item: stack.amount for stack in recipe.inputs}
        elif answer.event == "got":
            assert not spent
            assert len(gained) == 1
            assert set(gained) <= book.raw
        else:
            assert not gained
            assert not spent


@pytest.mark.parametrize(
    ("action", "event"),
    [
        ("craft 1 ash tray using 2 ash board, 1 glue", "made"),
        ("craft ash tray using 2 ash board, 1 glue", "made"),
        ("Craft 1 ash tray using 1 glue,2 ash board.", "made"),
        ("craft 2 ash tray using 2 ash board, 1 glue", "no recipe"),
        ("craft 2 ash tray using 4 ash board, 2 glue", "no recipe"),
        ("craft 1 ash tray using 2 ash board", "no recipe"),
        ("craft 1 ash tray using 1 ash board, 1 ash board, 1 glue", "no recipe"),
        ("craft 1 ash tray using 2 ash board, 1 glue, 1 ash", "no recipe"),
        ("craft 1 ash tray using 5 ash board, 1 glue", "too little"),
        ("craft 1 elm tray using 2 elm board, 1 glue", "too little"),
        ("craft 1 moon using 1 ash", "no recipe"),
        ("craft 1 ash tray using ash board, 1 glue", "no number"),
        ("craft 1 ash tray", "not understood"),
        ("get 3 ash", "got"),
        ("get 3 ash tray", "cannot get"),
        ("get 3 moon", "cannot get"),
        ("get 3 any board", "cannot get"),
        ("get 0 ash", "cannot get"),
        ("get ash", "cannot get"),
        ("get 99999999 ash", "cannot get"),
        ("inventory", "looked"),
        ("inventory please", "not understood"),
    ],
)
def test_known_answers(action: str, event: str) -> None:
    bench = Workbench(own_book())
    bench.inventory.update({"ash": 2, "ash board": 4, "glue": 2})
    assert bench.act(action).event == event


@pytest.mark.parametrize("wood", ["ash", "elm", "pine", "teak"])
def test_any_item_of_a_kind_will_do_but_the_kind_is_no_item(wood: str) -> None:
    bench = Workbench(own_book())
    bench.inventory.update({"red paint": 2, f"{wood} board": 1, f"{wood} tray": 1})
    assert bench.act("craft 1 red sign using 1 red paint, 1 any board").event == "too little"
    assert bench.act(f"craft 1 red sign using 1 red paint, 1 {wood} tray").event == "no recipe"
    assert bench.act(f"craft 1 red sign using 1 red paint, 1 {wood} board").event == "made"


# The plans.


def followed(book: Book, goal: str, bench: Workbench) -> int:
    """How many actions the expert took; each made the plan shorter."""
    for taken in range(1, 200):
        plan = best_plan(schemes_of(book, goal), bench.inventory)
        answer = bench.act(first_action(plan, bench.inventory))
        assert answer.event in ("got", "made")
        if answer.made == goal:
            assert plan.length == 1
            return taken
        assert plan_length(book, goal, bench.inventory) <= plan.length - 1
    raise AssertionError(f"{goal} was not made")


@given(GOALS, st.data())
def test_from_any_inventory_the_plan_shrinks_with_every_action(
    goal: str, data: st.DataObject
) -> None:
    book, bench = own_book(), Workbench(own_book())
    tree = tree_of(book, goal)
    parts = sorted({s.item for r in tree for s in r.inputs} - book.kinds.keys() | {goal})
    held = data.draw(st.dictionaries(st.sampled_from(parts), st.integers(1, 4)))
    bench.inventory.update(held)
    length = plan_length(book, goal, held)
    assert followed(book, goal, bench) == length <= plan_length(book, goal, {})


def fewest_actions(book: Book, goal: str) -> int:
    """By trying everything, one action at a time."""
    recipes = sorted_recipes(tree_of(book, goal))
    raw = sorted({s.item for r in recipes for s in r.inputs} & book.raw)
    actions = [*map(str, recipes), *(f"get {n} {item}" for item in raw for n in (1, 2, 3, 4))]
    border: set[tuple[tuple[str, int], ...]] = {()}
    for taken in range(1, 8):
        after = set()
        for state in border:
            for action in actions:
                bench = Workbench(book)
                bench.inventory.update(dict(state))
                if bench.act(action).made == goal:
                    return taken
                after.add(tuple(sorted(bench.inventory.items())))
        border = after
    raise AssertionError(f"{goal} needs more than 7 actions")


@pytest.mark.parametrize("goal", ["ash bowl", "rye mash", "ash toy", "flax cloth", "mint tonic"])
def test_no_shorter_way_exists(goal: str) -> None:
    assert plan_length(own_book(), goal, {}) == fewest_actions(own_book(), goal)


def test_of_two_ways_the_plan_takes_the_shorter_for_what_is_at_hand() -> None:
    book = tiny_book("1 b using 1 a", "1 d using 1 b", "1 d using 1 c, 1 e, 1 f, 1 g")
    assert plan_length(book, "d", {}) == 3
    assert plan_length(book, "d", {"c": 1, "e": 1, "f": 1}) == 2
    assert plan_length(book, "d", {"c": 1, "e": 1, "f": 1, "g": 1}) == 1


def test_batches_and_shared_parts_are_counted_together() -> None:
    book = tiny_book("2 b using 1 a", "1 c using 3 b, 2 a", "1 d using 1 c, 2 b")
    bench = Workbench(book)
    assert plan_length(book, "d", {}) == 6  # get 5 a, three times b, c, d
    assert followed(book, "d", bench) == 6
    assert bench.inventory == {"b": 1, "d": 1}


# The published book.


@needs_published
def test_the_published_book_has_the_published_numbers() -> None:
    book = published_book()
    depths = Counter(depth_of(book, item) for item in book.making)
    assert depths == {1: 125, 2: 291, 3: 117, 4: 11}
    assert {kind: len(items) for kind, items in book.kinds.items()} == {
        "any planks": 8, "any wool": 15,
    }  # fmt: skip


@needs_published
@settings(max_examples=30)
@given(st.data())
def test_the_expert_makes_every_published_goal_as_planned(data: st.DataObject) -> None:
    book = published_book()
    goal = data.draw(st.sampled_from(sorted(book.making)))
    assert followed(book, goal, Workbench(book)) <= plan_length(book, goal, {})
