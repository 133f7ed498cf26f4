"""The expert: what to do next, from the mission, its state, and the cells seen so far.

It is a function of the episode's present state, so it continues sensibly after any moves. It
knows no unseen cell. It goes, in the fewest turns it can see, for what the mission needs next: the
thing itself, a key for its door, a thing that blocks the way, a place to put something down, or an
unseen corner. minigrid's own bot is not used: it plays primitives, of which 20 turns are too few,
raises in two levels and can hang, so a time limit would have to decide what the expert says.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fedse_worlds.babyai.moves import (
    OPEN,
    SHORT_FORMS,
    THROUGH,
    Move,
    action_on,
    available,
    move_of,
)
from fedse_worlds.babyai.routes import (
    Ground,
    Way,
    best_lookout,
    corridor,
    facing,
    has_key,
    ways_from,
)
from fedse_worlds.babyai.view import Seen, View
from fedse_worlds.babyai.world import GO_TO, PICK, WAYS, Cell, Pose, World


class Advice(NamedTuple):
    """An action and the turns until what it is for is reached."""

    turns: int
    action: str


@dataclass(frozen=True)
class Scene:
    """One moment of an episode as the agent knows it."""

    world: World
    view: View
    cells: dict[Cell, Any]
    """Every cell seen so far and what it holds now."""

    @cached_property
    def ground(self) -> Ground:
        world = self.world
        return Ground(
            self.cells,
            world.pose,
            world.carried,
            self._macros,
            world.width,
            world.height,
            world.room_size,
            self._barred,
            hands_off=bool(self._strict("PickupInstr")),
        )

    def _strict(self, kind: str) -> list[Any]:
        """What is due and fails the mission when done to a wrong object (in some levels)."""
        due = _due(self.world.instruction)
        return [one for one in due if type(one).__name__ == kind and one.strict]

    @cached_property
    def _barred(self) -> list[Cell]:
        """Doors that fail the mission when opened."""
        right = [self.where(one.desc.obj_set) for one in self._strict("OpenInstr")]
        return [c for c in self.of_kind("door") if any(c not in doors for doors in right)]

    @cached_property
    def lookout(self) -> Way | None:
        return best_lookout(self.ground, self.ways)

    @cached_property
    def ways(self) -> dict[Pose, Way]:
        return ways_from(self.ground)

    @cached_property
    def actions(self) -> Collection[str]:
        return available(self.view, short=False)

    @property
    def _macros(self) -> dict[Pose, str]:
        ends: dict[Pose, str] = {}
        for action in self.actions:
            if action.startswith((GO_TO, THROUGH, OPEN)):
                move = move_of(action, self.view, short=False)
                if isinstance(move, Move) and not self._must_stay_shut(action):
                    ends.setdefault(move.end, action)
        return ends

    def _must_stay_shut(self, action: str) -> bool:
        if not action.startswith(OPEN):
            return False
        door = next(one for one in self.view.objects if action == action_on(OPEN, one, short=False))
        thing = self.cells[door.cell]
        locked = thing.is_locked and not has_key(self.world.carried, thing)
        return bool(locked) or door.cell in self._barred

    def where(self, wanted: Iterable[Any]) -> list[Cell]:
        """The seen cells that hold one of these objects."""
        wanted = list(wanted)
        return [
            cell
            for cell, thing in self.cells.items()
            if thing is not None and any(thing is one for one in wanted)
        ]

    def holds(self, wanted: Iterable[Any]) -> bool:
        return any(self.world.carried is one for one in wanted)

    def is_movable(self, cell: Cell) -> bool:
        thing = self.cells.get(cell)
        return thing is not None and thing.type in ("key", "ball", "box")

    def of_kind(self, kind: str) -> list[Cell]:
        return [c for c, thing in self.cells.items() if thing is not None and thing.type == kind]

    def action_at(self, verb: str, cell: Cell) -> str:
        """The action on the object at this cell; empty when it is not in sight."""
        one: Seen | None = next((o for o in self.view.objects if o.cell == cell), None)
        return action_on(verb, one, short=False) if one else ""


def advise(world: World, view: View, seen: Iterable[Cell], *, short: bool) -> str:
    """The action a competent player takes now."""
    scene = Scene(world, view, {cell: world.at(cell) for cell in seen})
    left = len(_remaining(world.instruction))
    # In the mission's order: the nearest first would turn back when a nearer one comes in sight.
    pursuits = (advice for one in _due(world.instruction) if (advice := _pursue(scene, one, left)))
    advice = next(pursuits, None) or _explore(scene) or Advice(0, "turn left")
    return _in_short(advice.action, view) if short else advice.action


def _in_short(action: str, view: View) -> str:
    for one in view.objects:
        for verb in (GO_TO, PICK, THROUGH, OPEN):
            if action == action_on(verb, one, short=False):
                return action_on(verb, one, short=True)
    return SHORT_FORMS.get(action, action)


def _due(instruction: Any) -> list[Any]:
    """The single instructions that count when done next."""
    kind = type(instruction).__name__
    if kind not in ("BeforeInstr", "AfterInstr", "AndInstr"):
        return [instruction]
    parts = [(instruction.instr_a, instruction.a_done), (instruction.instr_b, instruction.b_done)]
    if kind == "AfterInstr":
        parts.reverse()
    open_parts = [part for part, done in parts if done != "success"]
    if kind != "AndInstr":
        open_parts = open_parts[:1]
    return [one for part in open_parts for one in _due(part)]


def _remaining(instruction: Any) -> list[Any]:
    """The single instructions that are not done yet."""
    if not hasattr(instruction, "instr_a"):
        return [instruction]
    parts = [(instruction.instr_a, instruction.a_done), (instruction.instr_b, instruction.b_done)]
    return [one for part, done in parts if done != "success" for one in _remaining(part)]


def _pursue(scene: Scene, instruction: Any, left: int) -> Advice | None:
    """The next action for one instruction; None while something it needs is still unseen."""
    kind = type(instruction).__name__
    if kind == "PutNextInstr":
        return _put_next(scene, instruction)
    targets = scene.where(instruction.desc.obj_set)
    if kind == "PickupInstr":
        ready = targets or scene.holds(instruction.desc.obj_set)
        return _pick_up(scene, targets) if ready else None
    if kind == "OpenInstr":
        options = (_open(scene, cell, last=left == 1) for cell in targets)
        return min((advice for advice in options if advice), default=None)
    if not targets and scene.holds(instruction.desc.obj_set):
        return _put_down(scene, [])
    return _towards(scene, targets, lambda cell: scene.action_at(GO_TO, cell))


def _put_next(scene: Scene, instruction: Any) -> Advice | None:
    moved = instruction.desc_move.obj_set
    beside = [
        (x + dx, y + dy) for x, y in scene.where(instruction.desc_fixed.obj_set) for dx, dy in WAYS
    ]
    spots = [c for c in beside if c in scene.cells and scene.cells[c] is None]
    taken = [c for c in beside if scene.is_movable(c)]
    if not spots and taken and (scene.holds(moved) or scene.world.carried is None):
        return _clear(scene, taken[0], taken)
    if scene.holds(moved):
        return _towards(scene, spots, lambda _: "drop")
    targets = scene.where(moved)
    in_the_dark = not beside and scene.lookout is not None and scene.lookout.blocker
    if not targets or (in_the_dark and scene.world.carried is None):
        return None  # clearing the way to look around takes both hands
    blocker = _blocker(scene, spots)
    if blocker and blocker not in targets:
        return _clear(scene, blocker, spots)
    return _pick_up(scene, targets, onward=spots)


def _pick_up(
    scene: Scene, targets: Collection[Cell], onward: Collection[Cell] = ()
) -> Advice | None:
    """Towards carrying what is at a target, to go on to another place with it."""
    if scene.world.carried is not None:
        return _put_down(scene, [targets, onward])
    in_reach = [a for cell in targets if (a := scene.action_at(PICK, cell)) in scene.actions]
    if in_reach:
        return Advice(1, in_reach[0])
    return _towards(scene, targets, lambda cell: scene.action_at(PICK, cell))


def _open(scene: Scene, door: Cell, *, last: bool) -> Advice | None:
    thing = scene.cells[door]
    if thing.is_locked and not has_key(scene.world.carried, thing):
        keys = [c for c in scene.of_kind("key") if scene.cells[c].color == thing.color]
        blocker = _blocker(scene, [door])
        if keys and blocker and blocker not in keys:
            return _clear(scene, blocker, [door])
        return _pick_up(scene, keys, onward=[door]) if keys else None
    at_once = scene.action_at(OPEN, door)
    if last and at_once in scene.actions:
        return Advice(1, at_once)
    return _towards(scene, [door], lambda _: "toggle")


def _towards(scene: Scene, targets: Iterable[Cell], finish: Callable[[Cell], str]) -> Advice | None:
    """One action nearer to facing a target, or `finish` when facing it."""
    targets = list(targets)
    reached = [(scene.ways[p], cell) for p, cell in facing(targets) if p in scene.ways]
    if not reached:
        return None
    way, cell = min(reached, key=lambda one: (one[0].turns, one[1]))
    if way.blocker:
        return _clear(scene, way.blocker, targets)
    return Advice(way.turns + 1, way.first or finish(cell))


def _blocker(scene: Scene, targets: Iterable[Cell]) -> Cell | None:
    """The first thing to carry aside on the cheapest way to a target, if any."""
    ways = [scene.ways[p] for p, _ in facing(targets) if p in scene.ways]
    return min(ways, key=lambda way: way.turns).blocker if ways else None


def _clear(scene: Scene, blocker: Cell, targets: Collection[Cell]) -> Advice | None:
    if scene.ground.hands_off:
        return _towards(scene, [blocker], lambda _: "toggle")
    if scene.world.carried is not None:
        return _put_down(scene, [targets])
    return _pick_up(scene, [blocker])


def _put_down(scene: Scene, errands: Iterable[Iterable[Cell]]) -> Advice | None:
    """Drop what is carried, if it can be, where it blocks no door and no walk to an errand."""
    here = scene.world.pose[:2]
    empty = [cell for cell, thing in scene.cells.items() if thing is None and cell != here]
    kept_free = {cell for targets in errands for cell in corridor(scene.ground, targets)}
    kept_free |= {(x + dx, y + dy) for x, y in scene.of_kind("door") for dx, dy in WAYS}
    for places in ([cell for cell in empty if cell not in kept_free], empty):
        reached = [scene.ways[pose] for pose, _ in facing(places) if pose in scene.ways]
        free = [way for way in reached if way.blocker is None]
        if free:
            way = min(free, key=lambda way: way.turns)
            return Advice(way.turns + 1, way.first or "drop")
    return None


def _explore(scene: Scene) -> Advice | None:
    """Towards an unseen corner; else through a locked door; else into a box."""
    way = scene.lookout
    if way:
        if way.blocker:
            return _clear(scene, way.blocker, [way.blocker])
        return Advice(way.turns, way.first)
    locked = [c for c in scene.of_kind("door") if scene.cells[c].is_locked]
    opened = [advice for cell in locked if (advice := _open(scene, cell, last=True))]
    if not locked or opened:
        return min(opened, default=None)
    return _towards(scene, scene.of_kind("box"), lambda _: "toggle")
