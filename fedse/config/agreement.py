"""What the members of a federation agree on: numbered documents, each of which is complete.

The first is the invitation. An amendment holds from a named round on, for those who accepted it.
What a member decides alone (its machine, its environment, where the base model is) is in none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tomlkit

from fedse.config.file import parse_config
from fedse.config.hardware import OWN_SECTIONS
from fedse.config.keys import config_keys
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.types import Record

# Other sites' environments are not known here, but the schema requires a value.
ELSEWHERE = "elsewhere"
VARIANTS = (("aggregate", "type"), ("select", "type"), ("train", "loss"))
"""Settings that may name code of another package."""
MEMBERS = "members"
BASE_SINCE = "model.since"
"""The setting that changes with the base model or the layout of the adapter."""
FIRST = 1
"""Number of what the invitations say."""


class Terms(Protocol):
    """What an invitation and an amendment both say."""

    @property
    def experiment(self) -> str: ...
    @property
    def members(self) -> tuple[str, ...]: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def agreed(self) -> str: ...


class Agreement(Record):
    """An amendment as the coordinator signs it; it replaces what was agreed before it."""

    number: int
    federation: str
    experiment: str
    since: int
    """The first round for which it holds."""
    members: tuple[str, ...]
    settings: dict[str, Any]
    """As in an invitation: the experiment without its clients and the base model's path."""
    agreed: str
    spec: str
    base: str
    reason: str
    """The coordinator's own words, for the owners of the sites."""
    fedse: str
    """Version of the program that wrote it."""
    issued: int
    """Seconds since 1970."""
    signer: str
    """The coordinator's Ed25519 public key, hex."""


class SettingChange(NamedTuple):
    """One difference between two agreements."""

    key: str
    before: Any
    after: Any
    about: str
    """What the setting means."""

    @property
    def line(self) -> str:
        return f"{self.key}: {_shown(self.before)} -> {_shown(self.after)}"


def offered_settings(config: Config) -> dict[str, Any]:
    """What an invitation or an amendment says of an experiment: nobody's own settings."""
    own: Any = {"clients": True, "model": {"base"}, **dict.fromkeys(OWN_SECTIONS, True)}
    return config.model_dump(mode="json", exclude=own, exclude_none=True, exclude_defaults=True)


def config_of(terms: Terms, own: Mapping[str, Any], source: str) -> Config:
    """The experiment of the terms with a member's own settings; refused if its digest differs."""
    for section, key in VARIANTS:
        name = str(terms.settings.get(section, {}).get(key, ""))
        if ":" in name:  # a site does not import what a coordinator names
            raise ConfigError(
                f"{source}: {section}.{key} = {name!r} names a module",
                hint="ask for one that names an entry point of an installed package",
            )
    sections = {k: {**terms.settings.get(k, {}), **v} for k, v in own.items() if k != "clients"}
    raw = {**terms.settings, **sections, "clients": own["clients"]}
    config = parse_config(tomlkit.dumps(raw), source)
    if config.run.name != terms.experiment or config.agreed_digest() != terms.agreed:
        raise ConfigError(
            f"{source}: its digest does not follow from its settings with this fedse",
            hint="install the fedse that wrote it, or ask for a new one",
        )
    return config


def amended(config: Config, terms: Terms, source: str, *, base: str = "") -> Config:
    """`config` with what is agreed as in the terms; the member's own settings stay.

    `base` is where the base model is now; empty = where it was.
    """
    plain = config.model_dump(mode="json", exclude_none=True)
    known = {one["name"]: one for one in plain["clients"]}
    own = {
        "run": {"workers": config.run.workers},
        "model": {"base": base or config.model.base},
        "buffer": {"keep_played": config.buffer.keep_played},
        **{name: section for name, section in plain.items() if name in OWN_SECTIONS},
        "clients": [known.get(name, {"name": name, "env": ELSEWHERE}) for name in terms.members],
    }
    return config_of(terms, own, source)


def changes_between(before: Config, after: Config) -> list[SettingChange]:
    """Every agreed setting that differs, and the members."""
    old, new = (dict(_flat(config.agreed_settings(defaults=True))) for config in (before, after))
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    about = config_keys()
    found = [
        SettingChange(k, old.get(k), new.get(k), about[k].about if k in about else "") for k in keys
    ]
    were, are = (sorted(config.members) for config in (before, after))
    if were != are:
        about_members = "The sites whose adapters are merged, and who get the result."
        found.append(SettingChange(MEMBERS, were, are, about_members))
    return found


def outside(
    changes: Sequence[SettingChange], bounds: Mapping[str, Sequence[Any]]
) -> list[SettingChange]:
    """The changes that the bounds do not cover: none = all are within them.

    The bounds of a number are the least and the most, those of anything else all its values.
    """
    return [one for one in changes if not _within(one.after, bounds.get(one.key, ()))]


def _within(value: Any, bounds: Sequence[Any]) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return len(bounds) == 2 and bool(bounds[0] <= value <= bounds[1])
    return value in bounds


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and not before:
            yield from _flat(value, f"{key}.")
        else:
            yield before + key, value


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
