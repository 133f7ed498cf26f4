"""Ways over the part of a level that has been seen, counted in turns, and where looking pays.

A turn is one text action: a quarter turn, a step, or one macro action from the present view. Closed
doors cost a turn more; things in the way can be walked over at a price, which stands for carrying
them aside.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from fedse_worlds.babyai.view import in_sight
from fedse_worlds.babyai.world import GO_TO, WAYS, Cell, Pose, ahead_of, can_enter, is_opaque

# Turns it takes to carry a thing out of the way: take, turn, drop, turn back; and with full hands
# to put down and fetch again what is carried.
BLOCKER_TURNS, BLOCKER_TURNS_HANDS_FULL = 5, 12


class Way(NamedTuple):
    """How to get to a pose."""

    turns: int
    first: str
    """The action to begin with; empty when already there."""
    blocker: Cell | None
    """The first cell on the way that holds a thing to be carried aside."""


class Ground(NamedTuple):
    """What an agent knows of its level."""

    cells: Mapping[Cell, Any]
    pose: Pose
    carried: Any
    macros: Mapping[Pose, str]
    """Where each macro action of the present view would end."""
    width: int
    height: int
    room_size: int
    barred: Collection[Cell] = ()
    """Doors that must not be opened."""
    hands_off: bool = False
    """Nothing may be carried aside; boxes vanish when opened."""


def ways_from(ground: Ground) -> dict[Pose, Way]:
    """The cheapest way to every pose that can be reached, nearest first."""
    done: dict[Pose, Way] = {}
    order = count()
    heap = [(0, next(order), ground.pose, Way(0, "", None))]
    for pose, action in ground.macros.items():
        heappush(heap, (1, next(order), pose, Way(1, action, None)))
    while heap:
        turns, _, pose, way = heappop(heap)
        if pose in done:
            continue
        done[pose] = way
        for after, cost, action, blocker in _steps(ground, pose):
            if after not in done:
                onward = Way(turns + cost, way.first or action, way.blocker or blocker)
                heappush(heap, (turns + cost, next(order), after, onward))
    return done


def _steps(ground: Ground, pose: Pose) -> Iterable[tuple[Pose, int, str, Cell | None]]:
    x, y, way = pose
    yield (x, y, (way - 1) % 4), 1, "turn left", None
    yield (x, y, (way + 1) % 4), 1, "turn right", None
    cell = ahead_of(pose)
    if cell not in ground.cells:
        return
    thing, after = ground.cells[cell], (*cell, way)
    if can_enter(thing):
        yield after, 1, "move forward", None
    elif thing.type == "door":
        openable = not thing.is_locked or has_key(ground.carried, thing)
        if openable and cell not in ground.barred:
            yield after, 2, "toggle", None
    elif thing.type == "box" or (thing.type != "wall" and not ground.hands_off):
        hands_full = ground.carried is not None
        yield after, BLOCKER_TURNS_HANDS_FULL if hands_full else BLOCKER_TURNS, "", cell


def has_key(carried: Any, door: Any) -> bool:
    """Whether what is carried unlocks the door."""
    return carried is not None and carried.type == "key" and carried.color == door.color


def facing(cells: Iterable[Cell]) -> Iterable[tuple[Pose, Cell]]:
    """Every pose from which one of the cells is straight ahead, with that cell."""
    for x, y in cells:
        for way, (ahead_x, ahead_y) in enumerate(WAYS):
            yield (x - ahead_x, y - ahead_y, way), (x, y)


def corridor(ground: Ground, targets: Iterable[Cell]) -> set[Cell]:
    """The cells of one cheapest walk to a target; the same whichever way the agent faces."""
    came: dict[Cell, Cell | None] = {}
    start: tuple[int, Cell, Cell | None] = (0, ground.pose[:2], None)
    heap, wanted = [start], set(targets)
    while heap:
        cost, cell, before = heappop(heap)
        if cell in came:
            continue
        came[cell] = before
        if cell in wanted:
            return _trace_back(came, cell)
        for ahead_x, ahead_y in WAYS:
            beside = (cell[0] + ahead_x, cell[1] + ahead_y)
            thing = ground.cells.get(beside)
            if beside in ground.cells and (thing is None or thing.type != "wall"):
                in_the_way = thing is not None and thing.type != "door"
                extra = BLOCKER_TURNS if in_the_way else 0
                heappush(heap, (cost + 1 + extra, beside, cell))
    return set()


def _trace_back(came: Mapping[Cell, Cell | None], end: Cell) -> set[Cell]:
    cells: set[Cell] = set()
    cell: Cell | None = end
    while cell is not None:
        cells.add(cell)
        cell = came[cell]
    return cells


def best_lookout(ground: Ground, ways: Mapping[Pose, Way]) -> Way | None:
    """The way to where most unseen cells come into sight per turn; None when all is seen."""
    best, best_score = None, 0.0
    for pose, way in ways.items():
        if best_score * (way.turns + 1) > 48:  # more cells than a view has beside one's own
            break
        score = _unseen_from(ground, pose) / (way.turns + 1 + _is_detour(way))
        if score > best_score and way.turns:
            best, best_score = way, score
    return best


def _is_detour(way: Way) -> bool:
    """Walking to a thing only to look from there is hard to learn from; turning is preferred."""
    return way.first.startswith(GO_TO)


def _unseen_from(ground: Ground, pose: Pose) -> int:
    """How many unseen cells could be seen from a pose if nothing unseen is in the way."""

    def hides(cell: Cell) -> bool:
        x, y = cell
        if not (0 <= x < ground.width and 0 <= y < ground.height):
            return True
        return cell != pose[:2] and is_opaque(ground.cells.get(cell))

    return sum(
        cell not in ground.cells and _may_matter(ground, cell)
        for cell, _, _ in in_sight(pose, hides)
    )


def _may_matter(ground: Ground, cell: Cell) -> bool:
    """Whether a cell can hold more than wall: rooms have one size, and walls meet in corners."""
    x, y = cell
    if not (0 < x < ground.width - 1 and 0 < y < ground.height - 1):
        return False
    pitch = ground.room_size - 1
    return bool(x % pitch or y % pitch)
