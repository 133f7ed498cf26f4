"""From an action's text to minigrid primitives, using only what is in sight.

Turning, stepping, dropping and toggling are one primitive each. Going to an object, picking it up
and passing a door expand to a shortest way over visible cells. Every text is either a `Move` or a
sentence that says why it is not one.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fedse_worlds.babyai.view import Seen, View
from fedse_worlds.babyai.world import (
    DROP,
    FORWARD,
    GO_TO,
    LEFT,
    PICK,
    PICK_UP,
    RIGHT,
    TOGGLE,
    WAIT,
    Cell,
    Pose,
    ahead_of,
    can_enter,
)

CHECK_ACTIONS = "check available actions"
THROUGH, OPEN = "go through", "toggle and go through"

PRIMITIVES: Mapping[str, int] = {
    "turn left": LEFT,
    "turn right": RIGHT,
    "move forward": FORWARD,
    "toggle": TOGGLE,
    "drop": DROP,
}
# How the short prompt says the same; it takes the long forms too.
SHORT_FORMS: Mapping[str, str] = {
    "turn left": "left",
    "turn right": "right",
    "move forward": "forward",
    THROUGH: "through",
    OPEN: "open",
}
_LONG_FORMS = {short: long for long, short in SHORT_FORMS.items()}
_OBJECT_ACTION = re.compile(
    r"(toggle and go through|go through|go to|pick ?up|through|open) (.+?)(?: (\d{1,3}))?"
)
NO_ACTION = "that is no action"


class Move(NamedTuple):
    """What an action does, if nothing comes in between."""

    primitives: tuple[int, ...]
    end: Pose


def plain_words(text: str) -> str:
    """Lower case words and numbers with single blanks; punctuation is no part of an action."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def move_of(words: str, view: View, *, short: bool) -> Move | str:
    """The move that `words` (from plain_words) mean in this view, or why they mean none."""
    if short:
        words = _LONG_FORMS.get(words, words)
    if words in PRIMITIVES:
        return _primitive(PRIMITIVES[words], view.pose)
    match = _OBJECT_ACTION.fullmatch(words)
    if match is None:
        return NO_ACTION
    verb = match[1] if match[1] in (GO_TO, THROUGH, OPEN) else _long_verb(match[1], short=short)
    if not verb:
        return NO_ACTION
    one = _find_object(view, match[2], int(match[3] or 1))
    if one is None:
        return f"there is no {match[2][:30]} {match[3] or 1} in sight"
    return _object_move(verb, one, view)


def _long_verb(verb: str, *, short: bool) -> str:
    if verb.startswith("pick"):
        return PICK
    return _LONG_FORMS[verb] if short else ""


def _find_object(view: View, name: str, number: int) -> Seen | None:
    for one in view.objects:
        if (name, number) in ((one.name, one.number), (one.plain, one.plain_number)):
            return one
    return None


def _primitive(primitive: int, pose: Pose) -> Move:
    x, y, way = pose
    turned = {LEFT: (x, y, (way - 1) % 4), RIGHT: (x, y, (way + 1) % 4)}
    end = (*ahead_of(pose), way) if primitive == FORWARD else turned.get(primitive, pose)
    return Move((primitive,), end)


def _object_move(verb: str, one: Seen, view: View) -> Move | str:
    if verb == PICK and one.kind == "door":
        return "a door cannot be picked up"
    if verb == PICK and view.carried is not None:
        return "your hands are full"
    if verb in (THROUGH, OPEN) and one.kind != "door":
        return f"the {one.plain} is no door"
    if verb == THROUGH and one.state != "open":
        return f"the {one.plain} is {one.state}"
    if verb == OPEN and one.state == "open":
        return f"the {one.plain} is open already"
    way = _way_to_face(view, one.cell)
    if way is None:
        return f"there is no way to the {one.plain} in sight"
    primitives, end = way
    if verb == GO_TO:
        # Standing there already must count as having gone: minigrid judges after a primitive.
        return Move(primitives or (WAIT,), end)
    if verb == PICK:
        return Move((*primitives, PICK_UP), end)
    toggled = (TOGGLE,) if verb == OPEN else ()
    beyond = ahead_of((*one.cell, end[2]))
    last = beyond if can_enter(view.cells.get(beyond)) else one.cell
    return Move((*primitives, *toggled, FORWARD, FORWARD), (*last, end[2]))


def _way_to_face(view: View, target: Cell) -> Move | None:
    """The fewest primitives over visible cells after which the agent faces `target`."""
    steps: dict[Pose, tuple[Pose, int] | None] = {view.pose: None}
    queue = deque([view.pose])
    while queue:
        pose = queue.popleft()
        if ahead_of(pose) == target:
            return Move(_trace(steps, pose), pose)
        for primitive in (FORWARD, LEFT, RIGHT):
            after = _primitive(primitive, pose).end
            if after not in steps and (primitive != FORWARD or _walkable(view, after[:2])):
                steps[after] = (pose, primitive)
                queue.append(after)
    return None


def _trace(steps: Mapping[Pose, tuple[Pose, int] | None], pose: Pose) -> tuple[int, ...]:
    primitives = []
    while (step := steps[pose]) is not None:
        pose, primitive = step
        primitives.append(primitive)
    return tuple(reversed(primitives))


def _walkable(view: View, cell: Cell) -> bool:
    return cell in view.cells and can_enter(view.cells[cell])


def available(view: View, *, short: bool) -> list[str]:
    """Every action that has a chance to do something here, as the agent should say it."""
    front = view.cells.get(ahead_of(view.pose))
    actions = ["turn left", "turn right"]
    if _walkable(view, ahead_of(view.pose)):
        actions.append("move forward")
    if front is not None and front.type in ("door", "box"):
        actions.append("toggle")
    if front is None and view.carried is not None:
        actions.append("drop")
    if short:
        actions = [SHORT_FORMS.get(action, action) for action in actions]
    standing = _reached_cells(view)
    for one in view.objects:
        if any(cell in standing for cell in _beside(one.cell)):
            actions += [action_on(verb, one, short=short) for verb in _verbs(one, view)]
    return actions if short else [*actions, CHECK_ACTIONS]


def action_on(verb: str, one: Seen, *, short: bool) -> str:
    """An action on an object in sight, in words `move_of` takes for that object."""
    if not short:
        return f"{verb} {one.name} {one.number}"
    number = f" {one.plain_number}" if one.plain_number > 1 else ""
    return f"{SHORT_FORMS.get(verb, verb)} {one.plain}{number}"


def _verbs(one: Seen, view: View) -> Iterator[str]:
    yield GO_TO
    if one.kind == "door":
        yield THROUGH if one.state == "open" else OPEN
    elif view.carried is None:
        yield PICK


def _reached_cells(view: View) -> set[Cell]:
    start = view.pose[:2]
    reached, todo = {start}, [start]
    while todo:
        for cell in _beside(todo.pop()):
            if cell not in reached and _walkable(view, cell):
                reached.add(cell)
                todo.append(cell)
    return reached


def _beside(cell: Cell) -> Sequence[Cell]:
    x, y = cell
    return ((x + 1, y), (x, y + 1), (x - 1, y), (x, y - 1))
