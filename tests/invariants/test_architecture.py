"""The shape of the house: who may import whom, how long things are, what an import may load."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "fedse"
FILES = sorted(PACKAGE.rglob("*.py"))

# A module may import modules of its own layer and of the layers above it in this list.
LAYERS = [
    "types errors seeds events lock",
    "config config_file config_keys toml_lines envs agent.prompt agent.policy select"
    " aggregate base_model methods",
    "rollout buffer buffer_file parts parties tally train agent.hf evaluate paired",
    "rounds",
    "run run_folder run_list held_out arms comparison export coordinator site serve local"
    " exports trackers pooled flower federation testing reproduce doctor metrics"
    " ledger ledger_facts ledger_keys ledger_records",
    "report cli",
    "__init__ __main__",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
# Which of our modules may import a heavy or a framework package.
ALLOWED = {
    "flwr": ("flower",),
    "ray": ("flower",),
    "torch": ("train", "agent.hf"),
    "transformers": ("train", "agent.hf"),
    "peft": ("train",),
    "starlette": ("serve",),
    "uvicorn": ("serve",),
    "cyclopts": ("cli",),
    "prometheus_client": ("metrics",),
    "rich": ("cli", "report"),
    "jinja2": ("report",),
    "sqlite3": ("buffer_file", "run", "ledger_facts", "envs.shop.search", "flower.coordinate"),
    "cryptography": ("flower", "federation", "ledger_keys"),
    "inspect_ai": ("exports.inspect_log",),
    "pyarrow": ("exports.parquet",),
    "tensorboard": ("trackers",),
    "trackio": ("trackers",),
    "mlflow": ("trackers",),
    "wandb": ("trackers",),
    "pickle": (),
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def room_of(module: str) -> str:
    """The entry of LAYERS a module belongs to: its own, or that of the folder it lies in."""
    return module if module in RANK else module.partition(".")[0]


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def test_every_module_has_a_layer():
    homeless = [m for m in map(module_of, FILES) if room_of(m) not in RANK]
    assert [m for m in homeless if not m.endswith("__init__")] == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downwards(path: Path):
    module = module_of(path)
    room = room_of(module)
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "fedse" and rest and room in RANK:
            target = room_of(rest)
            assert RANK[target] <= RANK[room], f"{module} may not import {rest}"
        if top in ALLOWED:
            allowed = any(module == a or module.startswith(a + ".") for a in ALLOWED[top])
            assert allowed, f"{module} may not import {top}"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_sizes(path: Path):
    text = path.read_text()
    limit = 120 if module_of(path) == "rounds" else 300
    assert len(text.splitlines()) <= limit
    tree = ast.parse(text)
    assert not text.strip() or ast.get_docstring(tree), "every module states its contract"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            assert (node.end_lineno or 0) - start + 1 <= 40, f"{node.name} is longer than 40 lines"


def test_inheritance_has_depth_one():
    """A class of ours extends a foreign base or one of the four of ours that exist for it."""
    extensible = {"Record", "Section", "FedSEError", "Env"}
    trees = {module_of(p): ast.parse(p.read_text()) for p in FILES}
    ours = {n.name for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    named = base.id if isinstance(base, ast.Name) else ""
                    allowed = named not in ours or named in extensible
                    assert allowed, f"{module}.{node.name} inherits from {named}"


def test_no_cupboards():
    for path in FILES:
        words = set(module_of(path).replace(".", "_").split("_"))
        assert not words & {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


@pytest.mark.parametrize(
    "module", ["fedse", "fedse.rounds", "fedse.coordinator", "fedse.site.serve", "fedse.local"]
)
def test_light_imports(module: str):
    """The server's and the algorithm's modules load no model library and no engine."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "transformers", "peft", "flwr", "ray", "rich", "cyclopts"} & set(loaded)
