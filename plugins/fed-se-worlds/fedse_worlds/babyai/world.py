"""One BabyAI level of minigrid being played: where the agent is, what the cells hold, primitives.

The only module that touches minigrid, which is imported when the first level is opened. minigrid's
image observation is never computed: the text is read from the grid itself.
"""

import os
import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from fedse import EnvError, MachineError
from fedse.envs import boundary

Cell = tuple[int, int]
"""Column and row; rows grow downwards."""
Pose = tuple[int, int, int]
"""Column, row, and the direction faced as an index of WAYS."""

# minigrid's numbers of directions and of primitive actions.
WAYS: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, WAIT = range(7)

# Where a pose exists, a try finds one with a chance of at least 1 in 36 (nine cells, four
# directions), so that 1,000 tries fail with a chance below 1e-12.
AGENT_PLACEMENTS = 1000


# As the agent says it, and as a mission says it.
GO_TO, PICK = "go to", "pick up"


class Wish(NamedTuple):
    """A mission of one step: walk to a thing of this colour and kind, or take it."""

    verb: str
    colour: str
    kind: str

    def __str__(self) -> str:
        return " ".join(self)


def wish_of(text: str) -> Wish | None:
    """`pick up red ball` as a wish; None for any other text."""
    match = re.fullmatch(f"({GO_TO}|{PICK}) ([a-z]+) (box|ball|key|door)", text)
    wish = Wish(match[1], match[2], match[3]) if match else None
    return None if wish is None or (wish.verb, wish.kind) == (PICK, "door") else wish


def ahead_of(pose: Pose) -> Cell:
    """The cell the agent faces."""
    x, y, way = pose
    return x + WAYS[way][0], y + WAYS[way][1]


def can_enter(thing: Any) -> bool:
    """Whether the agent can walk onto a cell that holds `thing` (None = empty)."""
    return thing is None or (thing.type == "door" and thing.is_open)


def is_opaque(thing: Any) -> bool:
    """Whether `thing` hides what is behind it: walls and doors that are not open."""
    return thing is not None and (
        thing.type == "wall" or (thing.type == "door" and not thing.is_open)
    )


class World:
    """A level; `won` and `over` describe the episode after the last primitive."""

    def __init__(self, game: Any) -> None:
        self._game = game
        self.width: int = game.width
        self.height: int = game.height
        self.room_size: int = game.room_size
        self.mission: str = game.mission
        self.instruction: Any = game.instrs
        """minigrid's own instruction object, with what is done so far."""
        self.won = False
        self.over = False

    @property
    def pose(self) -> Pose:
        x, y = self._game.agent_pos
        return int(x), int(y), int(self._game.agent_dir)

    @property
    def carried(self) -> Any:
        """The object in the agent's hands, or None."""
        return self._game.carrying

    def at(self, cell: Cell) -> Any:
        """What a cell inside the grid holds; None = nothing."""
        return self._game.grid.grid[cell[1] * self.width + cell[0]]

    def act(self, primitive: int) -> bool:
        """Do one primitive; whether it changed anything."""
        before = self._changeable()
        _, reward, terminated, truncated, _ = self._game.step(primitive)
        self.won = bool(terminated and reward > 0)
        self.over = bool(terminated or truncated)
        return self._changeable() != before

    def _changeable(self) -> tuple[object, ...]:
        """Everything one primitive can change."""
        pose = self.pose
        front = self.at(ahead_of(pose))
        return pose, self._game.carrying, front, getattr(front, "is_open", None)


def open_level(gym_id: str, seed: int, wish: Wish | None = None) -> World:
    """The level as minigrid generates it from this seed, with a mission of its own or this one."""
    make = _make()
    with boundary(EnvError, f"environment 'babyai': minigrid level {gym_id} with seed {seed}"):
        game = make(gym_id, disable_env_checker=True).unwrapped
        game.gen_obs = dict  # step() would compute an image nobody looks at
        _bound_agent_placement(game)
        game.reset(seed=seed)
        if wish is not None:
            _give_mission(game, wish)
    return World(game)


def _give_mission(game: Any, wish: Wish) -> None:
    """The level asks for `wish` instead; all else in it, its step limit too, stays as it was."""
    verifier = import_module("minigrid.envs.babyai.core.verifier")
    wanted = verifier.ObjDesc(wish.kind, wish.colour)
    made = verifier.GoToInstr if wish.verb == GO_TO else verifier.PickupInstr
    game.instrs = made(wanted)
    game.mission = game.instrs.surface(game)  # raises where nothing of that name is in the level
    game.instrs.reset_verifier(game)


def _bound_agent_placement(game: Any) -> None:
    """Placing the agent ends after at most AGENT_PLACEMENTS tries, with a RecursionError.

    minigrid catches that error and draws the next level from the same generator, as it does when
    no cell is free. Without the bound it tries for ever in a room where every free cell faces only
    objects.
    """
    place_agent, place_obj = game.place_agent, game.place_obj
    tries = 0

    def place_agent_bounded(*args: Any, **options: Any) -> Any:
        nonlocal tries
        tries = 0
        return place_agent(*args, **options)

    def place_obj_counted(obj: Any, *args: Any, **options: Any) -> Any:
        nonlocal tries
        tries += obj is None
        if obj is None and tries > AGENT_PLACEMENTS:  # None stands for the agent
            raise RecursionError(f"no pose for the agent in {AGENT_PLACEMENTS} tries")
        return place_obj(obj, *args, **options)

    game.place_agent, game.place_obj = place_agent_bounded, place_obj_counted


@cache
def _make() -> Any:
    # Both print to stdout otherwise: pygame when imported, the level generator at every retry.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with boundary(MachineError, "environment 'babyai': minigrid cannot be imported"):
        import_module("minigrid")
        generator = import_module("minigrid.envs.babyai.core.roomgrid_level")
        vars(generator)["print"] = _say_nothing
        return import_module("gymnasium").make


def _say_nothing(*_: object) -> None: ...
