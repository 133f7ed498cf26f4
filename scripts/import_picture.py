"""Who imports whom: the rooms of the house, their ranks, the arrows between them, what is wrong.

A room is a folder of the package or a module beside them. An import may point to a room of a lower
rank only; the modules inside one room must not import each other in a circle.

    python scripts/import_picture.py                  the figures of this checkout
    python scripts/import_picture.py --rev 7723baf    those of an earlier commit, for comparison
    python scripts/import_picture.py --mermaid        the drawing in the docs
    python scripts/import_picture.py --table          the table below it
"""

import ast
import subprocess
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fedse"
LABEL_WIDTH = 38
"""Characters of a line in the drawing, which must fit on a telephone."""
# In px. Mermaid's own values break the labels once more and leave long arrows.
DRAWING = '%%{init: {"flowchart": {"wrappingWidth": 340, "rankSpacing": 24}}}%%'

# Bottom to top. A room may import rooms of the rows above its own in this list, and no others.
ROWS = (
    "role_figures",
    "types lazy errors events faults seeds suggest waiting course _version",
    "plugins ports outbound committed agent blocks signed",
    "protocol config envs",
    "adapters aggregate stats train redact privacy envs.desk envs.maze envs.wordle",
    "store observers audit",
    "method ledger models processes",
    "results exports extend envs.conformance engine secure_sum",
    "site report doctor",
    "drivers federation testing",
    "flower.messages",
    "flower.patches flower.server",
    "flower flower.ops",
    "api",
    "cli",
    "__init__ __main__",
)
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row.split()}

Sources = Mapping[str, str]
"""Dotted module name inside the package -> its text."""
Graph = Mapping[str, set[str]]
"""Who -> whom it imports."""


class Picture(NamedTuple):
    """What the imports of a checkout look like."""

    rooms: int
    arrows: int
    """Pairs of rooms of which the first imports the second."""
    upward: int
    """Arrows that no order of the rooms can make point downwards."""
    circles: int
    """Groups of rooms that import each other."""
    inner_circles: int
    """Rooms whose own modules import each other in a circle."""


def sources_here() -> dict[str, str]:
    """The modules of this checkout."""
    return sources_below(ROOT)


def sources_below(tree: Path) -> dict[str, str]:
    """The modules of the checkout in `tree`."""
    found = sorted((tree / PACKAGE).rglob("*.py"))
    return {_dotted(str(path.relative_to(tree / PACKAGE))): path.read_text() for path in found}


def sources_at(revision: str) -> dict[str, str]:
    """The modules of an earlier commit."""
    listed = _git("ls-tree", "-r", "--name-only", revision, f"{PACKAGE}/").split()
    return {
        _dotted(name.removeprefix(f"{PACKAGE}/")): _git("show", f"{revision}:{name}")
        for name in listed
        if name.endswith(".py")
    }


def room_of(module: str) -> str:
    """The folder a module lies in; a module beside the folders is a room of its own."""
    return module.rpartition(".")[0] or module


def imports_of(text: str, modules: Iterable[str]) -> Iterator[str]:
    """The modules of the package that `text` imports, inside functions too."""
    known = set(modules)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (_module(alias.name, known) for alias in node.names if _ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and _ours(node.module or ""):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield _module(whole if _inner(whole) in known else str(node.module), known)


def module_graph(sources: Sources) -> dict[str, set[str]]:
    """Every module, and which modules of the package it imports."""
    return {module: {*imports_of(text, sources)} - {module} for module, text in sources.items()}


def room_graph(modules: Graph) -> dict[str, set[str]]:
    """Every room that holds code, and which rooms it imports."""
    graph: dict[str, set[str]] = {}
    for module, imported in modules.items():
        if module.endswith(".__init__") and not imported:
            continue
        here = room_of(module)
        graph.setdefault(here, set()).update(room_of(name) for name in imported)
    return {room: found - {room} for room, found in graph.items()}


def inside(room: str, modules: Graph) -> dict[str, set[str]]:
    """The imports between the modules of one room."""
    own = {module for module in modules if room_of(module) == room}
    return {module: modules[module] & own for module in own}


def circles_of(graph: Graph) -> list[set[str]]:
    """The groups of two or more that can all reach each other."""
    reached = {name: _reachable(name, graph) for name in graph}
    groups: list[set[str]] = []
    for name in graph:
        group = {other for other in reached[name] if name in reached.get(other, ())}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


def is_acyclic(graph: Graph) -> bool:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True


def upward_arrows(graph: Graph) -> int:
    """How many arrows must go before the rest has an order: greedy, so it may be one too many."""
    left, upward = {room: set(found) for room, found in graph.items()}, 0
    while group := next(iter(circles_of(left)), None):
        pairs = [(a, b) for a in sorted(group) for b in sorted(left[a] & group)]
        here, there = min(pairs, key=lambda pair: (_arrows_without(*pair, left, group), pair))
        left[here].discard(there)
        upward += 1
    return upward


def picture_of(sources: Sources) -> Picture:
    """The figures of a checkout."""
    modules = module_graph(sources)
    rooms = room_graph(modules)
    tangled = [room for room in rooms if not is_acyclic(inside(room, modules))]
    return Picture(
        rooms=len(rooms),
        arrows=sum(map(len, rooms.values())),
        upward=upward_arrows(rooms),
        circles=len(circles_of(rooms)),
        inner_circles=len(tangled),
    )


def mermaid(sources: Sources) -> str:
    """The ranks from top to bottom with their rooms; an arrow where a rank imports another."""
    rooms = room_graph(module_graph(sources))
    ranks: dict[str, set[str]] = {}
    for room, found in rooms.items():
        ranks.setdefault(f"rank{RANK[room]}", set()).update(f"rank{RANK[to]}" for to in found)
    lines = [DRAWING, "flowchart TD"]
    for number, row in reversed([*enumerate(ROWS)]):
        held = " · ".join(room for room in row.split() if room in rooms)
        label = "<br/>".join([f"rank {number}", *wrap(held, LABEL_WIDTH)])
        lines += [f'  rank{number}["{label}"]']
    for rank in sorted(ranks, key=_number, reverse=True):
        below = sorted(_needed(rank, ranks), key=_number, reverse=True)
        lines += [f"  {rank} --> {to}" for to in below]
    return "\n".join(lines)


def arrow_table(sources: Sources) -> str:
    """Every room and the rooms it imports, but for those it also reaches through another one."""
    rooms = room_graph(module_graph(sources))
    lines = ["| room | rank | imports |", "|---|---|---|"]
    for room in sorted(rooms, key=lambda room: (-RANK[room], room)):
        needed = " ".join(f"`{to}`" for to in sorted(_needed(room, rooms)))
        lines += [f"| `{room}` | {RANK[room]} | {needed} |"]
    return "\n".join(lines)


def _needed(name: str, graph: Graph) -> set[str]:
    """Whom `name` imports and does not reach through any other that it imports."""
    implied = {far for near in graph[name] for far in _reachable(near, graph) - {near}}
    return graph[name] - implied


def _arrows_without(here: str, there: str, graph: Graph, group: set[str]) -> int:
    """Arrows of the group that are still in a circle once the one from here to there is gone."""
    left = {room: graph[room] & group for room in group}
    left[here] = left[here] - {there}
    return sum(len(left[room] & circle) for circle in circles_of(left) for room in circle)


def _reachable(name: str, graph: Graph) -> set[str]:
    seen, todo = {name}, [name]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def _ours(name: str) -> bool:
    return name.partition(".")[0] == PACKAGE


def _inner(name: str) -> str:
    return name.partition(".")[2]


def _module(name: str, known: set[str]) -> str:
    inner = _inner(name) or "__init__"
    return inner if inner in known else f"{inner}.__init__"


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _number(rank: str) -> int:
    return int(rank.removeprefix("rank"))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rev", help="an earlier commit instead of this checkout")
    parser.add_argument("--mermaid", action="store_true", help="print the drawing")
    parser.add_argument("--table", action="store_true", help="print every room's imports")
    given = parser.parse_args()
    sources = sources_at(given.rev) if given.rev else sources_here()
    if given.mermaid or given.table:
        print(mermaid(sources) if given.mermaid else arrow_table(sources))
        return
    for name, figure in picture_of(sources)._asdict().items():
        print(f"{name:<14} {figure}")


if __name__ == "__main__":
    main()
