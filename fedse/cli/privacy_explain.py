"""`fedse privacy explain`: what is on, in words for who answers for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.site_options import opened
from fedse.config.file import load_config, parse_config
from fedse.config.presets import PRESETS, least_audit
from fedse.config.schema import Config
from fedse.privacy.explained import NEVER, PROTECTIONS, named_settings

MEMBERS = "".join(f'\n[[clients]]\nname = "{name}"\nenv = "maze"\n' for name in "abc")


def explain(
    what: Annotated[
        str,
        Parameter(help="A preset, an experiment file or a site's folder; default: all presets."),
    ] = "",
    /,
) -> None:
    """Explain what protects the data: what is on, what it bounds, what it cost, what it does not.

    Example: fedse privacy explain patient-data
    """
    if not what:
        lines = [line for name in PRESETS for line in _overview(name)]
        more = ["", "all of one: fedse privacy explain customer-data"]
        print("\n".join([*lines, *more]))
        return
    preset, path = what in PRESETS and not Path(what).exists(), Path(what)
    config = of_preset(what) if preset else opened(path).config if path.is_dir() else None
    print("\n".join(_told(config or load_config(path))))


def of_preset(name: str) -> Config:
    """An experiment of three sites that sets nothing but this."""
    return parse_config(f'[privacy]\npreset = "{name}"\n{MEMBERS}', name)


def _overview(name: str) -> Iterator[str]:
    config = of_preset(name)
    yield f"{name}: {PRESETS[name].about}"
    yield from (f"  - {one.name}" for one in PROTECTIONS if one.on(config))


def _told(config: Config) -> Iterator[str]:
    name = config.privacy.preset
    yield f"privacy.preset = {name}: {PRESETS[name].about}" if name else "privacy.preset is not set"
    for part, text in _settings(config):
        yield f"  {part:<22}{text or 'nothing'}"
    for one in PROTECTIONS:
        on = one.on(config)
        yield f"\n{'ON ' if on else 'OFF'}  {one.name}"
        if on:
            yield f"     does      {one.does}"
            yield f"     bounds    {one.bounds}"
            yield f"     cost      {one.cost}"
            yield f"     does not  {one.lacks}"
            yield f"     measured  {one.source}"
    yield "\nWhat nothing here changes"
    yield from (f"- {line}" for line in NEVER)


def _settings(config: Config) -> Iterator[tuple[str, str]]:
    preset = PRESETS.get(config.privacy.preset or "")
    if preset is not None:
        agreed, own, audit = named_settings(preset)
        yield "agreed by all sites", agreed
        yield "each site's own", own
        yield "policy.toml, at least", audit if least_audit(config) else ""
