"""Every key an experiment file may have, read from the schema in schema.py and nowhere else."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.suggest import closest
from fedse.types import CLIENT_NAME

ANY = "NAME"
"""Stands for a name that the file's owner chooses."""


class ConfigKey(NamedTuple):
    """One section or one setting of the experiment file."""

    name: str
    """Dotted, without indices: `train.lr`, `clients.env`."""
    expected: str
    """The values it takes, in words that follow "must be"."""
    default: str
    """As TOML; `unset` or `none, it must be given` where there is none."""
    about: str
    choices: tuple[str, ...]
    is_section: bool


@cache
def config_keys() -> Mapping[str, ConfigKey]:
    """All sections and settings by dotted name, in the order of schema.py."""
    return keys_of(Config)


def keys_of(model: type[BaseModel], section: str = "") -> Mapping[str, ConfigKey]:
    """All sections and settings of a model by dotted name, in its order; `section` is its own."""
    schema = model.model_json_schema()
    return {key.name: key for key in _keys(section, schema, schema.get("$defs", {}))}


def children(section: str) -> tuple[str, ...]:
    """The names inside `section`, without the section's own; those of the top level for ""."""
    depth = section.count(".") + 1 if section else 0
    inside = (name for name in config_keys() if not section or name.startswith(f"{section}."))
    return tuple(name.rpartition(".")[2] for name in inside if name.count(".") == depth)


def suggest_key(name: str) -> str:
    """The key most likely meant by the unknown dotted `name`, empty when none is like it."""
    section, _, word = name.rpartition(".")
    last_words = {key.rpartition(".")[2]: key for key in reversed(list(config_keys()))}
    if word in last_words:
        return last_words[word]
    if near := closest(word, children(section)):
        return f"{section}.{near}" if section else near
    elsewhere = closest(word, last_words)
    return last_words[elsewhere] if elsewhere else closest(name, config_keys())


def explain(name: str) -> str:
    """What `name` means, the values it takes and its default; a section lists its settings."""
    plain = ".".join(part for part in name.split(".") if not part.isdigit())
    key = config_keys().get(plain)
    if key is None:
        near = suggest_key(plain)
        raise ConfigError(
            f"there is no setting {name!r}" + (f", did you mean {near!r}?" if near else ""),
            hint=f"fedse config explain {near}".rstrip(),
        )
    if not key.is_section:
        return f"{key.name}\n  {key.about}\n  values   {key.expected}\n  default  {key.default}"
    return "\n\n".join([_header(key), *(explain(f"{plain}.{child}") for child in children(plain))])


def _header(key: ConfigKey) -> str:
    return f"[[{key.name}]]  {key.expected}" if key.name == "clients" else f"[{key.name}]"


def _keys(section: str, schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[ConfigKey]:
    required = schema.get("required", ())
    for word, field in schema["properties"].items():
        inner = _section_of(field, defs)
        name = f"{section}.{word}" if section else word
        if inner is not None and "additionalProperties" in field:
            name += f".{ANY}"
        yield ConfigKey(
            name=name,
            expected=_expected(field),
            default="none, it must be given"
            if word in required
            else _as_toml(field.get("default")),
            about=(inner or field).get("description", ""),
            choices=tuple(field.get("enum", [field["const"]] if "const" in field else [])),
            is_section=inner is not None,
        )
        if inner is not None:
            yield from _keys(name, inner, defs)


def _section_of(field: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the table `field` is, or holds several of; None for a setting."""
    tables = field.get("items") or field.get("additionalProperties")
    reference = field.get("$ref") or (tables.get("$ref") if isinstance(tables, Mapping) else None)
    if reference is None:
        return None
    inner: Mapping[str, Any] = defs[reference.rpartition("/")[2]]
    return inner


def _expected(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return ", or ".join(map(_expected, field["anyOf"]))
    if field.get("type") == "null":
        return "unset"
    if "const" in field:
        return repr(field["const"])
    if "enum" in field:
        return "one of " + ", ".join(map(repr, field["enum"]))
    if field.get("pattern") == CLIENT_NAME:
        return "at most 64 of a-z, 0-9, - and _, the first one a letter or digit"
    if "$ref" in field.get("items", {}):
        return "one table or more"
    if "prefixItems" in field:
        parts = {_expected(part) for part in field["prefixItems"]}
        return f"a list of {len(field['prefixItems'])}, each {' or '.join(sorted(parts))}"
    signs = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    bounds = " and ".join(f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field)
    kinds = {
        "integer": "a whole number",
        "number": "a number",
        "string": "text",
        "boolean": "true or false",
        "array": f"a list of {'numbers' if _holds_numbers(field) else 'text'}",
        "object": "a table",
    }
    return f"{kinds[field.get('type', 'object')]} {bounds}".strip()


def _holds_numbers(field: Mapping[str, Any]) -> bool:
    return bool(field.get("items", {}).get("type") in ("integer", "number"))


def _as_toml(value: object) -> str:
    if value is None:
        return "unset"
    return "{}" if value == {} else json.dumps(value)
