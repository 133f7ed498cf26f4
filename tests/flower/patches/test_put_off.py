"""A module that is put off is loaded when it is needed, and is then the real one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedse.flower.patches.put_off import put_off_class, put_off_package
from tests.needs import needs


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that loads a store, which takes long to load; nothing of it is loaded yet."""
    top = tmp_path / "put_off_here"
    top.mkdir()
    (top / "__init__.py").write_text("")
    (top / "commands").mkdir()
    (top / "commands" / "__init__.py").write_text("from .one import name\nfrom ..store import *\n")
    (top / "commands" / "one.py").write_text("name = 'one'\n")
    (top / "store.py").write_text("class Store:\n    def __init__(self, at): self.at = at\n")
    (top / "uses.py").write_text("from .store import Store\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield top.name
    for name in [name for name in sys.modules if name.startswith(top.name)]:
        del sys.modules[name]


def test_a_package_is_run_when_more_than_its_modules_is_asked_for(package: str):
    put_off_package(f"{package}.commands")
    one = __import__(f"{package}.commands.one", fromlist=["name"])
    assert one.name == "one"
    assert f"{package}.store" not in sys.modules
    commands = sys.modules[f"{package}.commands"]
    assert commands.Store.__name__ == "Store"
    assert f"{package}.store" in sys.modules
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        commands.other  # noqa: B018


def test_a_class_is_loaded_when_one_is_made(package: str):
    put_off_class(f"{package}.store:Store")
    uses = __import__(f"{package}.uses", fromlist=["Store"])
    assert not hasattr(sys.modules[f"{package}.store"], "__file__")
    made = uses.Store("here")
    real = sys.modules[f"{package}.store"]
    assert isinstance(made, real.Store)
    assert made.at == "here"
    assert isinstance(uses.Store("there"), real.Store)


def test_whoever_asks_for_another_name_of_the_module_has_it(package: str):
    put_off_class(f"{package}.store:Other")
    uses = __import__(f"{package}.uses", fromlist=["Store"])
    assert uses.Store("here").at == "here"


def test_what_is_loaded_or_not_there_is_left_alone(package: str):
    store = __import__(f"{package}.store", fromlist=["Store"])
    put_off_class(f"{package}.store:Store")
    put_off_package(f"{package}.store")
    put_off_package(f"{package}.missing")
    assert sys.modules[f"{package}.store"] is store
    assert f"{package}.missing" not in sys.modules


NODE = """
import sys
from fedse.flower.patches.put_off import STORE, put_off_class
put_off_class(STORE)
import flwr.supernode.cli
from flwr.supercore.object_store import ObjectStoreFactory
print(type(ObjectStoreFactory().store()).__name__, "sqlalchemy" in sys.modules)
"""
SUPEREXEC = """
import sys
from fedse.flower.patches.put_off import COMMANDS, put_off_package
put_off_package(COMMANDS)
from importlib import import_module
begin = import_module("flwr.supercore.cli.flower_superexec").flower_superexec
print(begin.__name__, "sqlalchemy" in sys.modules)
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [(NODE, "InMemoryObjectStore False"), (SUPEREXEC, "flower_superexec False")],
)
def test_flowers_own_programs_load_no_library_of_databases(code: str, found: str):
    needs("flwr")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
