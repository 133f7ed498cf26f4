"""Modules of Flower's that a site's processes hardly ever need are loaded when they are needed.

Each of its programs loads those of all others, and every store loads the libraries of databases.
Nothing else changes: whoever asks such a module for anything has the real one.
"""

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

COMMANDS = "flwr.supercore.cli"
STORE = "flwr.supercore.object_store.sql_object_store:SqlObjectStore"
"""A SuperNode keeps its objects in memory."""


def put_off_package(name: str) -> None:
    """The modules of a package can be imported; the package itself runs when it is asked for more.

    Nothing changes if it has been loaded, or if there is none of that name.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    _ask_first(module, lambda: _run(spec, module))
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)


def _run(spec: ModuleSpec, module: ModuleType) -> ModuleType:
    assert spec.loader
    del vars(module)["__getattr__"]
    spec.loader.exec_module(module)
    return module


def put_off_class(place: str) -> None:
    """The class at `place`, written as package.module:Class, is loaded when one is to be made.

    Nothing changes if its module has been loaded.
    """
    name, _, cls = place.partition(":")
    if name in sys.modules:
        return
    module = ModuleType(name)

    def load() -> ModuleType:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        return importlib.import_module(name)

    def make(*given: Any, **options: Any) -> Any:
        return getattr(load(), cls)(*given, **options)

    setattr(module, cls, make)
    _ask_first(module, load)
    sys.modules[name] = module


def _ask_first(module: ModuleType, load: Callable[[], ModuleType]) -> None:
    """Whoever asks the module for a name that it lacks gets that of what `load` returns."""

    def ask(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(load(), name)

    vars(module)["__getattr__"] = ask
