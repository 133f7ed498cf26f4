"""The package uses the public names of fedse and what `fedse.extend` offers, nothing else."""

import ast
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import fedse
from fedse.plugins import PACKAGES, load_variant

HERE = Path(__file__).parents[1]
MODULES = sorted((HERE / "fedse_variants").glob("*.py"))
SURFACE = ("fedse.extend.learning", "fedse.extend.losses", "fedse.extend.merging")
SURFACE = (*SURFACE, "fedse.extend.selecting")


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of everything that is imported, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_it_imports_public_names_only(path: Path):
    for module, name in imported(ast.parse(path.read_text())):
        if module == "fedse":
            assert name in fedse.__all__
        elif module.startswith("fedse."):
            assert module in SURFACE
            assert name in import_module(module).__all__


def test_what_it_adds_is_what_fedse_names_it_for():
    """Each name is an entry point that can be loaded; without the package the error names it."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    groups = project["entry-points"]
    named = {group: of["fed-se-variants"] for group, of in PACKAGES.items() if HERE.name in of}
    assert {group: tuple(sorted(names)) for group, names in groups.items()} == named
    for group, names in groups.items():
        for name, place in names.items():
            assert load_variant(group, name) is load_variant(group, place)
