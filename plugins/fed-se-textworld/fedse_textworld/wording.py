"""The simulator's texts in few words, for the short prompt."""

import re

# What the short prompt says in place of the simulator's description of a task.
TASKS = {
    "arithmetic": "put as many in the box as the math problem gives",
    "coin": "take the coin",
    "cookingworld": "cook and eat",
    "peckingorder": "follow the instructions book",
    "simonsays": "do what Simon says",
    "sorting": "put all in the box, smallest first",
    "twc": "put things where they belong",
}
_COIN = re.compile(r"located in the (.+), and put it into the box found in the (.+?)\.")

_SHORTER = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"Gather all following .*?Ingredients:\s*", ""),
        (r"\s*Directions:\s*", ": "),
        (r"The map reads:\s*", ""),
        (r"Your task is to solve the following math problem: (.*?) *\. *\nThen.*", r"\1"),
        (r"The current task is to ", ""),
        (r"Inventory[^:]*: *\n\s*Your inventory is currently empty\.", ""),
        (r"Inventory[^:]*: *\n\s*", "you have "),
        (r"You are in the ([^.]+)\.", r"\1:"),
        (r"(In (one|another) part of the room you see|There is also|You also see) ", ""),
        (r"(?:To|Through an open [\w -]+, to) the (North|South|East|West) you see", r"\1"),
        (r",? that (has nothing on it|is empty)", ""),
        (r",? that is closed", " closed"),
        (r",? that (?:has|contains) ([^.]*?)(?: on it)?\.", r" with \1."),
        (r"\b([Aa]n?|[Tt]he|some) ", ""),
        (r",? and ", ", "),
        (r"\s*[.;]*\s*\n\s*|\s*\.\s+(?=.)", "; "),
        (r":;", ":"),
        (r"[\s.;]+$|^[\s;]+", ""),
    )
)


def short_task(game: str, task: str) -> str:
    """What to do, without how to find out."""
    found = _COIN.search(task)
    return f"coin from {found[1]} to box in {found[2]}" if found else TASKS.get(game, task)


def short_text(text: str) -> str:
    """The same facts without articles and filler, in one line."""
    for pattern, words in _SHORTER:
        text = pattern.sub(words, text)
    return text
