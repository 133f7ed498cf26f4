"""From a TOML file to a checked Config and back; all problems are reported together, with lines.

Values keep the type they have in the file: "3" is not a number and `true` is not 1.
"""

import json
import math
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from pydantic import ValidationError

from fedse.config.hardware import OWN_SECTIONS
from fedse.config.keys import children, config_keys, suggest_key
from fedse.config.lines import Location, toml_lines
from fedse.config.presets import filled
from fedse.config.removed import drop_removed
from fedse.config.schema import ClientSection, Config
from fedse.config.shipped import SHIPPED
from fedse.config.training import rivals
from fedse.errors import ConfigError, MachineError
from fedse.suggest import closest


class _Problem(NamedTuple):
    location: Location
    message: str
    meant: str = ""
    """The dotted key that was most likely meant by an unknown one."""
    missing: bool = False


class _GivenAt(NamedTuple):
    """Where a value was given: a line of the file or an override."""

    where: str
    quoted: str = ""
    line: int = sys.maxsize


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The checked experiment in `path`, with `overrides` ("train.lr=1e-4") put over it."""
    return parse_config(experiment_text(path), str(path), overrides)


def experiment_text(path: Path) -> str:
    """The text of an experiment file, or of the shipped experiment of that name."""
    if str(path) in SHIPPED and not path.exists():
        package, name = SHIPPED[str(path)]
        return files(package).joinpath(name).read_text(encoding="utf-8")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}", hint=_hint_for_missing(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"cannot read {path}: {error}") from error


def parse_config(text: str, source: str, overrides: Sequence[str] = ()) -> Config:
    """The checked experiment in `text`; errors name `source` as the file."""
    raw, places = _parse(text, source)
    refused = [_override(raw, places, override) for override in overrides]
    return _checked(raw, places, source, [*filter(None, refused)])


def with_own_settings(config: Config, path: Path) -> Config:
    """`config` with the tables of OWN_SECTIONS as a site's own file has them; others stay."""
    raw, places = _parse(experiment_text(path), str(path))
    own = {name: raw[name] for name in OWN_SECTIONS if name in raw}
    rest = config.model_dump(mode="json", exclude={*OWN_SECTIONS}, exclude_none=True)
    return _checked({**rest, **own}, places, str(path), [])


def _checked(
    raw: dict[str, Any], places: dict[Location, _GivenAt], source: str, problems: list[_Problem]
) -> Config:
    problems = [*problems, *_unsupported(raw, ())]
    problems += [_Problem(*found) for found in drop_removed(raw)]
    try:
        # JSON, because only there strict mode takes a list for a tuple.
        config = Config.model_validate_json(json.dumps(filled(raw), default=str), strict=True)
    except ValidationError as error:
        reported = {problem.location for problem in problems}
        problems += [p for p in _problems(error) if p.location not in reported]
    if problems:
        raise _error(problems, places, source)
    return config


def dump_config(config: Config, *, without: Sequence[str] = ()) -> str:
    """The experiment as TOML, but for the sections in `without`; loading it gives it back."""
    return tomlkit.dumps(config.model_dump(mode="json", exclude={*without}, exclude_none=True))


def _parse(text: str, source: str) -> tuple[dict[str, Any], dict[Location, _GivenAt]]:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(error, text, source) from None
    lines = text.split("\n")
    places = {
        location: _GivenAt(f"{source}:{line}", lines[line - 1].strip(), line)
        for location, line in toml_lines(text).items()
    }
    return raw, places


def _not_toml(error: tomllib.TOMLDecodeError, text: str, source: str) -> ConfigError:
    at = re.search(r"line (\d+)", str(error))  # Python 3.11 gives the line in the text only
    line = int(at[1]) if at else len(text.rstrip().split("\n"))
    lines = text.split("\n")
    message = [f"{source} is not TOML, nothing was started", f"  {source}:{line}  {error}"]
    message += [f"      {lines[line - 1].strip()}", *_odd_headers(lines, source)]
    return ConfigError(
        "\n".join(message), hint="correct that line; TOML is explained at https://toml.io"
    )


def _odd_headers(lines: Sequence[str], source: str) -> Iterator[str]:
    """Misspelt sections: after [[clinets]], the error is about a later [clients.options]."""
    for number, line in enumerate(lines, 1):
        header = re.match(r"\s*\[\[?\s*(\w+)", line)
        near = closest(header[1], children("")) if header else ""
        if header and near not in ("", header[1]):
            yield f"  {source}:{number}  {header[1]} is not a setting, did you mean {near!r}?"
            yield f"      {line.strip()}"


def _hint_for_missing(path: Path) -> str:
    siblings = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = closest(path.name, [*siblings, *(SHIPPED if path.parent == Path() else ())])
    shipped = f"these come with the package: {', '.join(SHIPPED)}"
    return f"did you mean {path.parent / near}?" if near else shipped


def _override(
    raw: dict[str, Any], places: dict[Location, _GivenAt], override: str
) -> _Problem | None:
    """`override` is applied to `raw` and noted in `places`, or a problem says why not."""
    name, equals, value = override.partition("=")
    parts = name.strip().split(".")
    location = tuple(int(part) if part.isdecimal() else part for part in parts)
    for inside in [place for place in places if place[: len(parts)] == location]:
        del places[inside]
    places[location] = _GivenAt(f"--set {override}")
    if not equals or "" in parts:
        return _Problem(location, "must look like section.key=value")
    node: Any = raw
    for depth, part in enumerate(parts):
        key: Any = part
        if isinstance(node, list):
            key = int(part) if part.isdecimal() else len(node)
            if key >= len(node):
                has = f"{'.'.join(parts[:depth])} has entries 0 to {len(node) - 1}"
                return _Problem(location, f"{has}, got {part!r}")
        elif not isinstance(node, dict):
            return _Problem(location, f"{'.'.join(parts[:depth])} is not a table")
        if depth == len(parts) - 1:
            node[key] = parse_value(value.strip())
            for rival in rivals(location):  # replaced if the file says it, wrong if another --set
                if not places.get((*location[:-1], rival), _GivenAt("")).where.startswith("--set"):
                    node.pop(rival, None)
        else:
            node = node.setdefault(key, {}) if isinstance(node, dict) else node[key]
    return None


def parse_value(text: str) -> Any:
    """`text` read as a TOML value, or as plain text if it is not one."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_options(given: Sequence[str]) -> dict[str, Any]:
    """An environment's options, each given on a command line as name=value."""
    pairs = [text.partition("=") for text in given]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        raise ConfigError(f"--option must look like name=value, got {wrong[0]!r}")
    return {key.strip(): parse_value(value.strip()) for key, _, value in pairs}


def check_command(client: ClientSection) -> str:
    """The command line that checks this client's environment with its options."""
    options = (f"{key}={tomlkit.item(value).as_string()}" for key, value in client.options.items())
    given = (f" --option {shlex.quote(option)}" for option in options)
    return f"fedse env check {client.env}{''.join(given)}"


def _unsupported(value: Any, location: Location) -> Iterator[_Problem]:
    """Values that TOML allows but an experiment does not: dates, nan, inf."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _unsupported(inner, (*location, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unsupported(inner, (*location, index))
    elif not isinstance(value, str | int | float) or not _finite(value):
        wanted = "text, a finite number, true or false, a list or a table"
        yield _Problem(location, f"{_dotted(location)} must be {wanted}, got {value}")


def _finite(value: str | int | float) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _problems(error: ValidationError) -> list[_Problem]:
    problems = [
        _problem(e["type"], e["loc"], e.get("input"), e["msg"])
        for e in error.errors(include_url=False)
    ]
    meant = {(p.location[:-1], p.meant) for p in problems if p.meant}
    inner = {p.location[:end] for p in problems for end in range(1, len(p.location))}
    # Reported already: a key that is missing because it was misspelt, a list with a wrong element.
    return [
        p
        for p in problems
        if not (p.missing and (p.location[:-1], _name(p.location)) in meant)
        and p.location not in inner
    ]


def _problem(kind: str, location: Location, got: object, message: str) -> _Problem:
    name = _dotted(location)
    key = config_keys().get(_name(location))
    if kind == "extra_forbidden":
        near = suggest_key(_name(location))
        suggestion = f", did you mean {near!r}?" if near else ""
        return _Problem(location, f"{name} is not a setting{suggestion}", near)
    if kind == "missing":
        expected = f"; it must be {key.expected}" if key else ""
        return _Problem(location, f"{name} is missing{expected}", missing=True)
    if kind == "one_of":
        return _Problem(location, f"{name} {message}")
    if kind == "value_error":
        return _Problem(location, message.removeprefix("Value error, "))
    if key is None:
        return _Problem(location, f"{name}: {message}, got {_quote(got)}")
    if isinstance(location[-1], int):
        return _Problem(location, f"{key.name} must be {key.expected}, got {_quote(got)} in it")
    near = closest(str(got), key.choices)
    suggestion = f", did you mean {near!r}?" if near else ""
    return _Problem(location, f"{name} must be {key.expected}, got {_quote(got)}{suggestion}")


def _quote(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _dotted(location: Sequence[str | int]) -> str:
    return ".".join(map(str, location))


def _name(location: Location) -> str:
    """The location as a key of the schema: without indices."""
    return ".".join(part for part in location if isinstance(part, str))


def _error(
    problems: Sequence[_Problem], places: Mapping[Location, _GivenAt], source: str
) -> ConfigError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"{source} has {count}, nothing was started"]
    placed = [(_place(problem.location, places, source), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0].line)
    for place, problem in placed:
        lines.append(f"  {place.where}  {problem.message}")
        if place.quoted:
            lines.append(f"      {place.quoted}")
    first = placed[0][1]
    topic = first.meant or _nearest_key(_name(first.location))
    return ConfigError("\n".join(lines), hint=f"fedse config explain {topic}".rstrip())


def _place(location: Location, places: Mapping[Location, _GivenAt], source: str) -> _GivenAt:
    """Where the value was given, or the nearest table around it."""
    for length in range(len(location), 0, -1):
        if location[:length] in places:
            return places[location[:length]]
    return _GivenAt(source, line=0)


def _nearest_key(name: str) -> str:
    """The innermost part of the dotted `name` that is a key of the schema; empty if none is."""
    while name and name not in config_keys():
        name = name.rpartition(".")[0]
    return name
