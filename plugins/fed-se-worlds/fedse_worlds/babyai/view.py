"""What the agent sees: the 7x7 cells in front of it, named and counted, as text.

Sight follows minigrid: walls and doors that are not open hide what is behind them. The full text
has the published wording (AgentGym); the short one says the same in few tokens, of some objects.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedse_worlds.babyai.world import WAYS, Cell, Pose, World, is_opaque

REACH = 7
"""Cells seen ahead, the agent's own row included, and cells seen across."""
_HALF = REACH // 2
_ROW = (1 << REACH) - 1

# The short text names at most this many objects.
SHORT_OBJECTS = 4


class Seen(NamedTuple):
    """One object in sight."""

    name: str
    """Colour, state of a door, kind."""
    number: int
    """1 for the nearest of this name, 2 for the next."""
    plain: str
    """Colour and kind."""
    plain_number: int
    kind: str
    state: str
    """open, closed or locked; empty for what is no door."""
    cell: Cell
    ahead: int
    aside: int
    """Steps to the right; negative to the left."""


class View(NamedTuple):
    """Everything in sight from one pose."""

    pose: Pose
    cells: dict[Cell, Any]
    """Each visible cell and what it holds, walls too."""
    objects: tuple[Seen, ...]
    """Nearest first."""
    carried: Any


def look(world: World) -> View:
    """The view from where the agent stands."""
    at, width, height = world.at, world.width, world.height
    pose = world.pose
    contents: dict[Cell, Any] = {}
    things: list[tuple[int, int, int, Cell, Any]] = []

    def hides(cell: Cell) -> bool:
        if not (0 <= cell[0] < width and 0 <= cell[1] < height):
            return True
        thing = contents[cell] = at(cell)
        return is_opaque(thing)

    cells: dict[Cell, Any] = {}
    for cell, ahead, aside in in_sight(pose, hides):
        if cell in contents:
            thing = cells[cell] = contents[cell]
            if thing is not None and thing.type != "wall" and (ahead or aside):
                things.append((ahead + abs(aside), ahead, aside, cell, thing))
    things.sort(key=lambda one: one[:3])
    return View(pose, cells, _number(things), world.carried)


def in_sight(pose: Pose, hides: Callable[[Cell], bool]) -> list[tuple[Cell, int, int]]:
    """The visible cells with their steps ahead and aside, row by row from the agent outwards.

    minigrid's rule: sight spreads along a row through cells that hide nothing, and from those to
    the three nearest cells of the next row, until a row is dark. `hides` is called at most once for
    each of the 7x7 cells.
    """
    x, y, way = pose
    (ahead_x, ahead_y), (right_x, right_y) = WAYS[way], WAYS[(way + 1) % 4]
    seen: list[tuple[Cell, int, int]] = []
    lit = 1 << _HALF
    for ahead in range(REACH):
        row_x, row_y = x + ahead * ahead_x, y + ahead * ahead_y
        row = [(row_x + s * right_x, row_y + s * right_y) for s in range(-_HALF, _HALF + 1)]
        clear = sum(1 << i for i, cell in enumerate(row) if not hides(cell))
        spread = 0
        while lit != spread:
            spread = lit
            through = lit & clear
            lit |= (through << 1 | through >> 1) & _ROW
        seen += [(cell, ahead, i - _HALF) for i, cell in enumerate(row) if lit >> i & 1]
        through = lit & clear
        lit = (through << 1 | through | through >> 1) & _ROW
        if not lit:
            break
    return seen


def _number(things: Sequence[tuple[int, int, int, Cell, Any]]) -> tuple[Seen, ...]:
    counts: dict[str, int] = {}
    numbered = []
    for _, ahead, aside, cell, thing in things:
        kind, state = thing.type, _state(thing)
        plain = name = f"{thing.color} {kind}"
        if state:
            name = f"{thing.color} {state} {kind}"
            counts[name] = counts.get(name, 0) + 1
        counts[plain] = counts.get(plain, 0) + 1
        numbered.append(
            Seen(name, counts[name], plain, counts[plain], kind, state, cell, ahead, aside)
        )
    return tuple(numbered)


def _state(thing: Any) -> str:
    if thing.type != "door":
        return ""
    return "open" if thing.is_open else "locked" if thing.is_locked else "closed"


def full_view(view: View) -> str:
    """The published sentences about the objects, the wall or box ahead, and the hands."""
    sentences = [f"There is a {one.name} {one.number} {_where(one)}." for one in view.objects]
    sentences.append("The room has walls around you.")
    ahead = _first_ahead(view)
    if ahead:
        sentences.append(f"You are facing a {ahead[0]} {ahead[1]} steps away.")
    if view.carried is None:
        sentences.append("You are not carrying anything.")
    else:
        sentences.append(f"You are carrying a {view.carried.color} {view.carried.type}.")
    return " ".join(sentences)


def _where(one: Seen) -> str:
    if not one.aside:
        return f"right in front of you {one.ahead} steps away"
    side = f"{abs(one.aside)} steps to your {'right' if one.aside > 0 else 'left'}"
    return f"{one.ahead} steps in front of you and {side}" if one.ahead else side


def short_view(view: View, mission: str) -> str:
    """Some objects, the steps to the wall ahead, and what is carried.

    Of more than SHORT_OBJECTS in sight, those the mission names come first, then the nearest.
    """
    objects = view.objects
    if len(objects) > SHORT_OBJECTS:
        chosen = sorted(objects, key=lambda one: not _is_meant(one, mission))[:SHORT_OBJECTS]
        objects = tuple(one for one in objects if one in chosen)
    parts = [_briefly(one) for one in objects]
    ahead = _first_ahead(view)
    if ahead and ahead[0] == "wall":
        parts.append(f"wall {ahead[1]}")
    if view.carried is not None:
        parts.append(f"hold {view.carried.color} {view.carried.type}")
    return ", ".join(parts) or "nothing"


def _is_meant(one: Seen, mission: str) -> bool:
    colour = one.plain.split()[0]
    names = (one.plain, f"{colour} object", f"the {one.kind}", f"a {one.kind}")
    return any(name in mission for name in names)


def _briefly(one: Seen) -> str:
    named = one.plain if one.plain_number == 1 else f"{one.plain} {one.plain_number}"
    state = f" {one.state}" if one.state else ""
    ahead = f" front {one.ahead}" if one.ahead else ""
    aside = f" {'right' if one.aside > 0 else 'left'} {abs(one.aside)}" if one.aside else ""
    return f"{named}{state}{ahead}{aside}"


def _first_ahead(view: View) -> tuple[str, int] | None:
    """The first wall or box straight ahead and the steps to it, if one is in sight."""
    x, y, way = view.pose
    for steps in range(1, REACH):
        cell = (x + steps * WAYS[way][0], y + steps * WAYS[way][1])
        thing = view.cells.get(cell)
        if thing is not None and thing.type in ("wall", "box"):
            return thing.type, steps
    return None
