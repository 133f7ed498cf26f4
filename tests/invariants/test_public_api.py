"""The public names are those of the stub, each is where it says, each type can be named."""

import ast
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import fedse

ROOT = Path(fedse.__file__).parent
STUB = ast.parse((ROOT / "__init__.pyi").read_text())
LISTED = {
    alias.name: f"fedse.{node.module}"
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_the_names_are_those_of_the_stub():
    assert 80 < len(LISTED) <= 100
    assert set(fedse.__all__) == set(dir(fedse)) == set(LISTED)


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_name_is_where_it_says(name: str):
    assert getattr(fedse, name) is getattr(import_module(LISTED[name]), name)


def test_no_name_hides_a_module():
    """`fedse.x` must not be a function at first and a module after somebody imported it."""
    modules = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(fedse.__all__)


def test_importing_fedse_loads_none_of_its_modules():
    code = "import sys, fedse; print(*(m for m in sys.modules if m.startswith('fedse.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_type_checkers_are_told_that_the_package_is_typed():
    assert (ROOT / "py.typed").exists()


def signatures(thing: object) -> Iterator[object]:
    """The functions a user of this name calls, and the class itself for its fields."""
    yield thing
    if not inspect.isclass(thing):
        return
    for name, member in vars(thing).items():
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        found = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if inspect.isfunction(found):
            yield found


def classes_in(hint: object) -> Iterator[type]:
    """The classes of this package in a type, however deep."""
    for inner in typing.get_args(hint):
        for one in inner if isinstance(inner, list) else [inner]:
            yield from classes_in(one)
    outer = typing.get_origin(hint) or hint
    if isinstance(outer, type) and outer.__module__.startswith("fedse."):
        yield outer


@pytest.mark.parametrize("name", sorted(fedse.__all__))
def test_every_type_in_a_public_signature_is_public(name: str):
    for found in signatures(getattr(fedse, name)):
        if not (inspect.isfunction(found) or inspect.isclass(found)):
            continue
        for hint in typing.get_type_hints(found).values():
            hidden = {one.__name__ for one in classes_in(hint)} - set(fedse.__all__)
            assert not hidden, f"{name} names {hidden}, which fedse does not export"
