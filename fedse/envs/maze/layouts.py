"""Maze layouts: drawn ones and seeded random ones, each a pure function of its name.

In a drawing `#` is a wall, `.` a free cell and `G` the goal. A cell is (row, column), counted
from the top left. Every side is at most 15, so that a coordinate stays below 16.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from fedse.errors import ConfigError
from fedse.seeds import seed_of

Cell = tuple[int, int]

# The order of preference among equally short paths.
MOVES: Mapping[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

LARGEST_SIDE = 15

DRAWINGS: Mapping[str, str] = {
    # The published maze: 26 free cells, goal (8, 6).
    "double_t": """
#############
#.....#.....#
###.#####.###
###.#####.###
###.#####.###
###.......###
######.######
######.######
######G######
#############
""",
    "u": """
#####
#...#
###.#
#G..#
#####
""",
    "cross": """
#######
###G###
###.###
#.....#
###.###
###.###
#######
""",
    "medium": """
########
#..#...#
#.##.#.#
#....#.#
##.###.#
#..#...#
#.##.#G#
########
""",
    "rooms": """
#########
#...#...#
#.......#
#...#...#
##.###.##
#...#...#
#......G#
#...#...#
#########
""",
    "spiral": """
#########
#.......#
#######.#
#.....#.#
#.###.#.#
#.#G..#.#
#.#####.#
#.......#
#########
""",
    "large": """
############
#....#.....#
#.##.#.###.#
#.#..#...#.#
#.#.####.#.#
#...#....#.#
###.#.####.#
#.....#G...#
############
""",
}

_RANDOM_NAME = re.compile(r"random-(\d+)x(\d+)-(\d+)(?:\.\.(\d+))?")


@dataclass(frozen=True)
class Layout:
    """A maze with one goal, reachable from every free cell."""

    name: str
    rows: tuple[str, ...]
    goal: Cell
    distances: Mapping[Cell, int]
    """Fewest moves to the goal, for every free cell, in reading order."""

    def moved(self, cell: Cell, direction: str) -> Cell:
        """Where a move ends: the next cell, or the same cell if there is a wall."""
        down, right = MOVES[direction]
        target = (cell[0] + down, cell[1] + right)
        return target if target in self.distances else cell

    def open_ways(self, cell: Cell) -> tuple[str, ...]:
        """The directions without a wall."""
        return tuple(way for way in MOVES if self.moved(cell, way) != cell)

    def towards_goal(self, cell: Cell) -> str:
        """The first direction that leads one move closer to the goal."""
        return min(self.open_ways(cell), key=lambda way: self.distances[self.moved(cell, way)])


def layout_names(named: Sequence[str]) -> tuple[str, ...]:
    """Each name once, ranges such as `random-9x9-1..8` spelled out."""
    return tuple(dict.fromkeys(name for entry in named for name in _expand(entry)))


def _expand(entry: str) -> Iterator[str]:
    match = _RANDOM_NAME.fullmatch(entry)
    if match is None or match[4] is None:
        yield entry
        return
    for seed in range(int(match[3]), int(match[4]) + 1):
        yield f"random-{match[1]}x{match[2]}-{seed}"


@cache
def layout(name: str) -> Layout:
    """The layout of this name, always the same."""
    if name in DRAWINGS:
        return _read(name, DRAWINGS[name].split())
    match = _RANDOM_NAME.fullmatch(name)
    sides = (int(match[1]), int(match[2])) if match else (0, 0)
    if not all(side % 2 == 1 and 5 <= side <= LARGEST_SIDE for side in sides):
        raise ConfigError(
            f"maze layout {name!r} is unknown; known are {', '.join(DRAWINGS)} and "
            f"random-ROWSxCOLUMNS-SEED with odd sides from 5 to {LARGEST_SIDE}",
            hint="change layouts or held_out in this client's options; try it: "
            "fedse env check maze --option 'layouts=[\"u\"]'",
        )
    return _read(name, _grow(*sides, Random(seed_of("maze layout", name))))


def _read(name: str, rows: Sequence[str]) -> Layout:
    cells = {(r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row)}
    free = {cell for cell, mark in cells.items() if mark != "#"}
    (goal,) = (cell for cell, mark in cells.items() if mark == "G")
    reached = _distances(free, goal)
    in_order = {cell: reached[cell] for cell in cells if cell in free}
    return Layout(name, tuple(rows), goal, in_order)


def _distances(free: set[Cell], goal: Cell) -> dict[Cell, int]:
    distances, border = {goal: 0}, deque([goal])
    while border:
        row, column = border.popleft()
        for down, right in MOVES.values():
            near = (row + down, column + right)
            if near in free and near not in distances:
                distances[near] = distances[(row, column)] + 1
                border.append(near)
    return distances


def _grow(height: int, width: int, random: Random) -> list[str]:
    """A maze without loops, grown depth first, then opened in a few extra places."""
    start = (1, 1)
    free, path = {start}, [start]
    while path:
        row, column = path[-1]
        steps = [
            (down, right)
            for down, right in MOVES.values()
            if 0 < row + 2 * down < height - 1
            and 0 < column + 2 * right < width - 1
            and (row + 2 * down, column + 2 * right) not in free
        ]
        if not steps:
            path.pop()
            continue
        down, right = random.choice(steps)
        path.append((row + 2 * down, column + 2 * right))
        free |= {(row + down, column + right), path[-1]}
    walls = [
        (row, column)
        for row in range(1, height - 1)
        for column in range(1, width - 1)
        if (row + column) % 2 == 1 and (row, column) not in free
    ]
    free.update(random.sample(walls, min(len(walls), 1 + len(walls) // 5)))
    goal = random.choice([cell for cell in sorted(free) if cell[0] % 2 and cell[1] % 2])
    marks = dict.fromkeys(free, ".") | {goal: "G"}
    return ["".join(marks.get((r, c), "#") for c in range(width)) for r in range(height)]
