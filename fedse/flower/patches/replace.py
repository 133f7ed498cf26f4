"""Replaces names inside Flower; they are those of the one version this was tested with."""

from collections.abc import Callable
from typing import Any

from fedse.errors import MachineError


def replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """`owner`, a module or class of Flower's, has `wrap` of what it had under `name`."""
    if not hasattr(owner, name):
        raise MachineError(
            f"{owner.__name__} has no {name}: this version of Flower is not the tested one",
            hint="pip install 'fed-se[flower]'",
        )
    setattr(owner, name, wrap(getattr(owner, name)))
