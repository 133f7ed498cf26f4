"""What the command line says of itself, from its own parser: no terminal is asked for its width."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from fedse.cli import app as command_line
from scripts.markdown import code, table


def command_parts() -> Iterator[str]:
    """A table of all verbs, then every command with its help, its example and its options."""
    app = command_line.build_app()
    verbs = [f"[`fedse {verb}`](#fedse-{verb})" for verb in command_line.VERBS]
    yield table(["command", "what for"], zip(verbs, _abouts(), strict=True))
    for verb in command_line.VERBS:
        yield from _command(app[verb], f"fedse {verb}", "##")
        if verb in command_line.GROUPS:
            yield from _group(app[verb], f"fedse {verb}")


def _abouts() -> list[str]:
    return [about for about, _ in command_line.VERBS.values()]


def _group(app: Any, name: str) -> Iterator[str]:
    seen: dict[Any, str] = {}
    for verb in (word for word in app if not word.startswith("-")):
        called = app[verb].default_command
        if called in seen:
            yield f"`{name} {verb}` is the same as `{name} {seen[called]}`."
        else:
            seen[called] = verb
            yield from _command(app[verb], f"{name} {verb}", "###")


def _command(app: Any, name: str, level: str) -> Iterator[str]:
    text, _, example = inspect.cleandoc(app.help).partition("Example: ")
    yield f"{level} {name}"
    yield text.strip()
    yield code(example.strip(), "bash")
    rows = [_option(argument) for argument in _arguments(app)]
    if rows:
        yield table(["argument", "meaning", "default"], rows)


def _arguments(app: Any) -> list[Any]:
    return [*app.assemble_argument_collection()] if app.default_command else []


def _option(argument: Any) -> tuple[str, str, str]:
    """Its names with the kind of value, its help with the choices, its default."""
    hint, default = argument.hint, argument.field_info.default
    names = [argument.name, *_tuple(argument.parameter.negative)]
    shown = ", ".join(f"`{' '.join([name, *_kind(hint)])}`" for name in names)
    if argument.field_info.kind is inspect.Parameter.POSITIONAL_ONLY:
        shown = f"`{argument.name}`"
    if argument.field_info.kind is inspect.Parameter.VAR_POSITIONAL:
        shown, default = f"`{argument.name}...`", None
    choices = ", ".join(f"`{choice}`" for choice in _choices(hint))
    meaning = f"{argument.parameter.help}{f' One of {choices}.' if choices else ''}"
    silent = default in (None, []) or default is False or argument.parameter.show_default is False
    told = "required" if argument.required else "" if silent else f"`{default}`"
    return shown, meaning, told


def _tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _kind(hint: Any) -> tuple[str, ...]:
    """The word for the value after an option; nothing for a flag."""
    hint = _plain(hint)
    if hint is bool:
        return ()
    if get_origin(hint) is Literal:
        return ("NAME",)
    return ({Path: "PATH", str: "TEXT", int: "NUMBER", float: "NUMBER"}[hint],)


def _choices(hint: Any) -> tuple[str, ...]:
    return get_args(_plain(hint)) if get_origin(_plain(hint)) is Literal else ()


def _plain(hint: Any) -> Any:
    """The kind of one value: of an option that may be left out or repeated too."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [kind for kind in get_args(hint) if kind is not NoneType]
    return get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint
