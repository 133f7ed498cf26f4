"""Replaces names inside Flower, and proves that Flower looks them up where they are replaced.

The names are those of the one version this was tested with. A later one that has a name and no
longer uses it would go on without what we put in its place, and nobody would notice.
"""

from collections.abc import Callable, Iterator
from inspect import unwrap
from pkgutil import resolve_name
from types import CodeType, FunctionType
from typing import Any

from fedse.errors import MachineError

TESTED = "pip install 'fed-se[flower]'"


def of_flower(place: str) -> Any:
    """What Flower has at `place`, which is written as package.module:Class.name."""
    try:
        return resolve_name(place)
    except (ImportError, AttributeError) as error:
        raise _not_tested(f"Flower has no {place}") from error


def replace(place: str, wrap: Callable[[Any], Any], *by: str) -> None:
    """At `place` is `wrap` of what was there, and Flower's functions `by` come past it.

    One of them uses the name, and one knows the module or class that has it.
    """
    module, _, path = place.partition(":")
    inside, _, name = path.rpartition(".")
    plain, owner = of_flower(place), of_flower(f"{module}:{inside}")
    users = [unwrap(of_flower(one)) for one in by]
    used = any(name in _names(user.__code__) for user in users)
    if not used or not any(_knows(user.__globals__, owner) for user in users):
        raise _not_tested(f"Flower's {' and '.join(by)} would not come past {place}")
    made = wrap(plain)
    if isinstance(made, FunctionType):
        vars(made)["__wrapped__"] = plain  # it may come past another place itself
    setattr(owner, name, made)


def _names(code: CodeType) -> Iterator[str]:
    """What a function, or one inside it, looks up; a class that it calls is made by __init__."""
    yield from (*code.co_names, "__init__")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _knows(names: dict[str, Any], owner: Any) -> bool:
    return names is vars(owner) or any(known is owner for known in names.values())


def _not_tested(why: str) -> MachineError:
    return MachineError(f"{why}: this version is not the tested one", hint=TESTED)
