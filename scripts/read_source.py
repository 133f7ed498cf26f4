"""What the source says of itself: the events it emits, the signatures it offers.

Read from the syntax tree, so that neither a Python version nor a terminal changes the text.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

EVENT_NAME = re.compile(r"^[a-z]+\.[a-z]+$")
EMITTERS = ("emit", "_note")
SHOWN_DECORATORS = ("property", "cached_property", "classmethod", "staticmethod", "contextmanager")
SHOWN_METHODS = ("__init__", "__call__", "__enter__", "__exit__")
WIDTH = 88
"""A longer signature has one argument per line."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Emitted(NamedTuple):
    """One call that emits an event."""

    event: str
    module: str
    fields: tuple[str, ...]


def emitted_events(sources: Mapping[str, str], models: Mapping[str, list[str]]) -> list[Emitted]:
    """Every event that the modules emit, by name, with its fields in the order of the call.

    `models` tells which fields are in an expression that is spread with `**`. A spread that is
    neither there nor a call of a function that returns a literal dict is refused.
    """
    found = set()
    # Most modules emit nothing, and to look at all of their functions takes seconds.
    emitting = {m: text for m, text in sources.items() if any(f"{e}(" in text for e in EMITTERS)}
    for module, text in emitting.items():
        tree = parsed(text)
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for name, call in _event_calls(function):
                fields = tuple(_fields(call, function, tree, models))
                found.add(Emitted(name, module, fields))
    return sorted(found)


@lru_cache(maxsize=32)
def parsed(source: str) -> ast.Module:
    """Its syntax tree, which nobody changes."""
    return ast.parse(source)


def definition_of(name: str, source: str) -> ast.stmt:
    """The statement at the top level of `source` that defines `name`."""
    for node in parsed(source).body:
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node):
            return node
    raise LookupError(f"{name} is not defined at the top level of its module")


def stub(node: ast.stmt) -> str:
    """The definition without bodies and private members, as Python that parses."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        marks = [f"@{d}" for d in map(ast.unparse, node.decorator_list)]
        head = "\n".join(
            [*marks, f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
        )
        members = [f"    {line}" for part in _members(node) for line in stub(part).splitlines()]
        return "\n".join([head, *members]) if members else f"{head} ..."
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        shown = [d for d in map(ast.unparse, node.decorator_list) if d in SHOWN_DECORATORS]
        return "\n".join([*(f"@{decorator}" for decorator in shown), _signature(node)])
    return ast.unparse(node)


def member_docs(node: ast.stmt) -> dict[str, str]:
    """What the docstrings of a class say of its public fields and methods."""
    if not isinstance(node, ast.ClassDef):
        return {}
    told = {}
    for part, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            told[part.name] = ast.get_docstring(part) or ""
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            told[part.target.id] = _text(after)
    return {name: text for name, text in told.items() if text and not name.startswith("_")}


def doc_of(name: str, source: str) -> str:
    """The docstring of `name`; for a variable, the string that follows it."""
    node = definition_of(name, source)
    if isinstance(node, Definition):
        return ast.get_docstring(node) or ""
    body = parsed(source).body
    place = body.index(node)
    return _text(body[place + 1]) if place + 1 < len(body) else ""


def _event_calls(function: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _called(node.func) in EMITTERS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and EVENT_NAME.match(str(argument.value)):
                    yield str(argument.value), node


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _fields(
    call: ast.Call, function: ast.FunctionDef, tree: ast.Module, models: Mapping[str, list[str]]
) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
            continue
        value = _assigned(keyword.value, function)
        spread = models.get(ast.unparse(value)) or _returned(value, tree)
        if not spread:
            raise LookupError(f"which fields are in **{ast.unparse(value)}?")
        yield from spread


def _assigned(value: ast.expr, function: ast.FunctionDef) -> ast.expr:
    """What the variable `value` was set to in `function`; anything else is itself."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(value) in _targets(node):
            return node.value
    return value


def _returned(value: ast.expr, tree: ast.Module) -> list[str]:
    """The keys of the literal dict that a function of this module returns when it is called."""
    name = _called(value.func) if isinstance(value, ast.Call) else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for part in node.body:
                if isinstance(part, ast.Return) and isinstance(part.value, ast.Dict):
                    return [ast.literal_eval(key) for key in part.value.keys if key]
    return []


def _members(node: ast.ClassDef) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            if part.name in SHOWN_METHODS or not part.name.startswith("_"):
                kept.append(part)
        elif isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
            kept.append(part)
    return kept


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    ending = f" -> {ast.unparse(node.returns)}: ..." if node.returns else ": ..."
    word = "def" if isinstance(node, ast.FunctionDef) else "async def"
    arguments = [*_arguments(node.args)]
    whole = f"{word} {node.name}({', '.join(arguments)}){ending}"
    if len(whole) <= WIDTH:
        return whole
    lines = [f"    {argument}," for argument in arguments]
    return "\n".join([f"{word} {node.name}(", *lines, f"){ending}"])


def _arguments(given: ast.arguments) -> Iterator[str]:
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + [*given.defaults]
    for place, (argument, default) in enumerate(zip(plain, defaults, strict=True), start=1):
        yield _argument(argument, default)
        if place == len(given.posonlyargs):
            yield "/"
    if given.vararg:
        yield f"*{ast.unparse(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(argument, default)
    if given.kwarg:
        yield f"**{ast.unparse(given.kwarg)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if argument.annotation else "="
    return ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default else "")


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(node: ast.stmt) -> str:
    """The string that `node` is; empty where it is something else."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""
