"""The shape of the house: who may import whom, how long things are, what an import may load."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from scripts.import_picture import (
    RANK,
    ROWS,
    arrow_table,
    inside,
    is_acyclic,
    mermaid,
    module_graph,
    picture_of,
    room_graph,
    sources_here,
    upward_arrows,
)

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fedse"
FILES = sorted(PACKAGE.rglob("*.py"))
PLUGINS = ROOT / "plugins"
ADDED = sorted(PLUGINS.glob("*/fedse_*/**/*.py"))
SOURCES = sources_here()
MODULES = module_graph(SOURCES)
ROOMS = room_graph(MODULES)

# Which of our modules may import a heavy or a framework package.
ALLOWED = {
    "flwr": ("flower",),
    "ray": ("flower",),
    "tenacity": (
        "waiting",
        "site.socket_client",
        "flower.server.mailbox",
        "engine.client",
        "fedse_serve.sending",
    ),
    "httpx": ("fedse_bridges.http_json", "flower", "engine.client"),
    "urllib": ("outbound",),  # it parses an address and sends nothing
    "mcp": ("fedse_bridges.mcp_server",),
    "anyio": ("fedse_bridges.mcp_server",),
    "psutil": ("processes.orphans", "processes.cpu_time", "processes.watchdog", "ports"),
    "torch": (
        "fedse_serve.beginnings",
        "fedse_variants.dpo_loss",
        "fedse_variants.grpo_loss",
        "fedse_variants.kto_loss",
        "train",
        "agent.hf",
        "agent.loaded",
        "engine.check",
        "engine.merged",
        "models",
    ),
    "transformers": (
        "fedse_serve.beginnings",
        "agent.hf",
        "agent.loaded",
        "agent.tokens",
        "models.convert",
        "models.shape",
    ),
    "huggingface_hub": ("adapters.hub", "models.fetch", "models.gguf_file"),
    "peft": ("train",),
    "accelerate": ("train",),
    "bitsandbytes": (),
    "jsonschema": ("fedse_agents.offer",),
    "referencing": ("fedse_agents.offer",),
    "llguidance": ("agent.shape",),
    "starlette": (
        "fedse_agents",
        "flower.patches.one_task",
        "flower.patches.held_questions",
        "flower.patches.quick_heartbeats",
    ),
    "uvicorn": ("fedse_agents",),
    "cyclopts": (
        "cli",
        "fedse_reproduce.command",
        "fedse_reproduce.sweep.command",
        "fedse_serve.command",
    ),
    "prometheus_client": ("observers.prometheus",),
    "rich": ("cli", "report"),
    "jinja2": ("report",),
    "sqlite3": (
        "store",
        "ledger.databases",
        "fedse_worlds.webshop.search",
        # Flower's own database: its commands do not tell which nodes are registered.
        "flower.ops.node_list",
    ),
    "cryptography": ("federation", "ledger.keys", "secure_sum", "signed", "store.sealing"),
    "Crypto": ("secure_sum.sharing",),
    "py4j": ("fedse_textworld.simulator",),
    "textworld_express": ("fedse_textworld.simulator",),
    "inspect_ai": ("fedse_inspect",),
    "pyarrow": ("exports.parquet", "fedse_reproduce.sweep.rows"),
    "tensorboard": ("fedse_trackers",),
    "trackio": ("fedse_trackers",),
    "mlflow": ("fedse_trackers",),
    "wandb": ("fedse_trackers",),
    "pickle": (),
}


def module_of(path: Path) -> str:
    """As in `method.rounds` of the core, `fedse_worlds.babyai.env` of a package beside it."""
    if path.is_relative_to(PACKAGE):
        return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(path.relative_to(PLUGINS).with_suffix("").parts[1:])


def test_what_is_looked_at_is_the_house():
    """Or every law below would hold of nothing."""
    assert len(FILES) == len(SOURCES) > 150
    assert {"fedse_worlds.babyai.env", "fedse_bridges.parts"} <= {module_of(p) for p in ADDED}
    assert {"Adapter", "Run", "FedSEError"} <= {node.name for _, node in classes()}


def test_every_room_has_one_rank():
    assert set(ROOMS) == set(RANK)
    listed = [room for row in ROWS for room in row.split()]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_imports_point_to_a_lower_rank(room: str):
    """Strictly: rooms of one rank do not know each other."""
    assert {to: RANK[to] for to in ROOMS[room] if RANK[to] >= RANK[room]} == {}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_circle_inside_a_room(room: str):
    assert is_acyclic(inside(room, MODULES))


def test_the_picture_can_show_what_is_wrong():
    """On a small house with one circle between rooms and one inside a room."""
    source = {
        "a.x": "import fedse.b.z",
        "a.y": "",
        "b.z": "from fedse.a import y",
        "c.u": "from fedse.c.v import f",
        "c.v": "from fedse.c.u import g\nimport fedse.a.x",
    }
    assert picture_of(source) == (3, 3, 1, 1, 1)
    assert upward_arrows({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == 1


def test_the_drawing_and_the_table_in_the_docs_are_those_of_the_code():
    """Made by: python scripts/import_picture.py --mermaid, and --table"""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    assert f"```mermaid\n{mermaid(SOURCES)}\n```" in page
    assert f"\n\n{arrow_table(SOURCES)}\n\n" in page


def test_the_table_leaves_out_only_what_follows():
    """Whom a room imports is whom it reaches by the arrows of the table."""
    rows = [line.strip("| ").split(" | ") for line in arrow_table(SOURCES).splitlines()[2:]]
    arrows = {row[0].strip("`"): set(row[2].replace("`", "").split()) for row in rows if row[2:]}
    reached: dict[str, set[str]] = {}
    for room in sorted(ROOMS, key=RANK.__getitem__):
        near = arrows.get(room, set())
        beyond = set().union(*(reached[to] for to in near))
        assert not near & beyond, "an arrow that follows from others"
        reached[room] = near | beyond
    assert {room: found - reached[room] for room, found in ROOMS.items() if found} == {
        room: set() for room, found in ROOMS.items() if found
    }


@pytest.mark.parametrize("path", [*FILES, *ADDED], ids=module_of)
def test_who_may_import_a_framework(path: Path):
    module = module_of(path)
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        for top in {name.partition(".")[0] for name in names} & ALLOWED.keys():
            allowed = any(module == a or module.startswith(a + ".") for a in ALLOWED[top])
            assert allowed, f"{module} may not import {top}"


@pytest.mark.parametrize("path", [*FILES, *ADDED], ids=module_of)
def test_sizes(path: Path):
    text = path.read_text()
    limit = 120 if module_of(path) == "method.rounds" else 300
    assert len(text.splitlines()) <= limit
    tree = ast.parse(text)
    assert not text.strip() or ast.get_docstring(tree), "every module states its contract"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            assert (node.end_lineno or 0) - start + 1 <= 40, f"{node.name} is longer than 40 lines"


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    return [
        (module, node)
        for module, text in SOURCES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]


def test_inheritance_has_depth_one():
    """A class of ours extends a foreign base or one of the four of ours that exist for it."""
    extensible = {"Record", "Section", "FedSEError", "Env"}
    ours = {node.name for _, node in classes()}
    for module, node in classes():
        for base in node.bases:
            named = base.id if isinstance(base, ast.Name) else ""
            allowed = named not in ours or named in extensible
            assert allowed, f"{module}.{node.name} inherits from {named}"


def test_one_name_means_one_class():
    counts = Counter(node.name for _, node in classes())
    twice = {name for name, count in counts.items() if count > 1}
    assert {name: [m for m, node in classes() if node.name == name] for name in twice} == {}


CATCHERS = {
    "errors": "the boundary around foreign code",
    "cli.app": "the last resort of the command line: a bug is told as one",
    "drivers.workers": "kills the workers, then raises again",
    "federation.folder": "removes the half-made folder, then raises again",
    "fedse_agents.batch_queue": "refuses those who wait, then raises again",
    "fedse_agents.endpoint": "nobody waits for the question any more, then raises again",
    "envs.conformance.check": "whatever an environment raises is a failed check",
    "envs.conformance.promises": "as above, for one promise",
    "envs.conformance.subject": "as above, for the episodes several promises share",
    "fedse_bridges.openenv_ws": "a session that breaks in any way is lost",
    "agent.prompt": "a chat template that fails at a tool is one without tools",
    "fedse_agents.play": "whatever an agent program raises breaks its episode",
    "method.own_pace": "what a thread raised is raised again in the thread that asked",
    "observers.trackers": "a tracker that fails must not end the run",
    "site.worker": "outlives every bad request",
    "site.listening": "outlives every caller that breaks off",
    "flower.client_app": "no word of what happened may leave the site",
    "flower.messages.wire": "whatever a peer's message breaks is the peer's fault",
    "flower.server.mailbox": "one reply that cannot be pulled must not end the round",
    "flower.patches.presence": "a node that cannot be deactivated is told of",
    "flower.ops.supernode": "ends the process with a code, whatever ended it",
}
"""Who catches everything, and why; CONTRIBUTING says which reasons there are."""


def test_who_may_catch_everything():
    """Also by leaving the kind of the error out."""
    catching = {
        module_of(path)
        for path in [*FILES, *ADDED]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {"Exception", "BaseException"} & _names(node.type))
    }
    assert catching == set(CATCHERS)


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


BESIDE = sorted(
    path for name in ("scripts", "research", "examples") for path in (ROOT / name).rglob("*.py")
)


@pytest.mark.parametrize("path", BESIDE, ids=lambda path: path.name)
def test_what_is_beside_the_package_imports_modules_that_exist(path: Path):
    imported = {
        node.module.removeprefix("fedse").removeprefix(".")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fedse"
    }
    known = {*SOURCES, *(module.removesuffix("__init__").rstrip(".") for module in SOURCES)}
    assert imported - known == set()


def test_no_cupboards():
    for path in [*FILES, *ADDED]:
        words = set(module_of(path).replace(".", "_").split("_"))
        assert not words & {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


@pytest.mark.parametrize(
    "module",
    [
        "fedse",
        "fedse.method.rounds",
        "fedse.drivers.loop",
        "fedse.drivers.local",
        "fedse.site.answer",
    ],
)
def test_light_imports(module: str):
    """The server's and the algorithm's modules load no model library and no engine."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in loaded
    assert not {"torch", "transformers", "peft", "flwr", "ray", "rich", "cyclopts"} & set(loaded)
