"""The short prompt has the facts of the simulator's texts."""

import pytest

from fedse_textworld.wording import short_task, short_text


@pytest.mark.parametrize(
    ("told", "short"),
    [
        (
            "You are in the kitchen. In one part of the room you see a stove. There is also an "
            "oven. You also see a fridge that is closed. In another part of the room you see a "
            "counter that has 33 papayas, 11 tangerines, and 20 peaches on it. There is also a "
            "box, that is empty. \nTo the North you see a closed wood door. Through an open "
            "frosted-glass door, to the East you see the pantry. ",
            "kitchen: stove; oven; fridge closed; counter with 33 papayas, 11 tangerines, 20 "
            "peaches; box; North closed wood door; East pantry",
        ),
        (
            "Gather all following ingredients and follow the directions to prepare this tasty "
            "meal.\n\nIngredients:\n  red apple\n  salt\n\nDirections:\n  slice the red apple\n"
            "  roast the red apple\n  prepare meal\n\n",
            "red apple; salt: slice red apple; roast red apple; prepare meal",
        ),
        ("Inventory (maximum capacity is 2 items): \n  Your inventory is currently empty.\n", ""),
        ("Inventory: \n  a map\n  a coin\n", "you have map; coin"),
        (
            "Your task is to solve the following math problem: divide 22 by 11 . \nThen, pick up "
            "the item with the same quantity as the answer, and place it in the box. ",
            "divide 22 by 11",
        ),
        ("You see A box, that contains 37mg of wood. ", "You see box with 37mg of wood"),
        ("The map reads:\n  The bar connects to the shower.\n", "bar connects to shower"),
        ("You take the coin.", "You take coin"),
        ("no", "no"),
    ],
)
def test_texts_keep_their_facts(told: str, short: str) -> None:
    assert short_text(told) == short


def test_tasks_keep_what_differs_between_them() -> None:
    told = (
        "Your task is to take the coin that is located in the pantry, and put it into the box "
        "found in the steam room. A map is provided, that you may find helpful."
    )
    assert short_task("mapreader", told) == "coin from pantry to box in steam room"
    assert short_task("coin", "Your task is to find the coin.") == "take the coin"
