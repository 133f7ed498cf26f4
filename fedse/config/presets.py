"""Privacy for people who are not experts: one word for what is on, by whose data is learned from.

A preset fills in what a file does not say, and refuses what would loosen it. What all sites agree
on stands in the agreed settings like any other, so it is in their digest; the rest is each site's
own, in its site.toml, and nobody else can see or set it. docs/adr/0055 has the reasons.
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from fedse.config.combinable import USUAL_NOISE

PresetName = Literal["internal", "customer-data", "patient-data"]
Settings = Mapping[str, bool | float | str]
"""Dotted keys and the least strict values; of a number the largest."""

NOTHING: Settings = MappingProxyType({})
SUMMED: Settings = {"aggregate.secure": True, "aggregate.clip": "none"}
FOUND: Settings = {"redact.secrets": True, "redact.personal": True}
# A bound for every attack, whether sites share the noise or each has its own.
BOUNDED: Settings = {
    "privacy.epsilon": 8.0,
    "privacy.delta": 1e-5,
    "privacy.unit": "subject",
    "privacy.counts": False,
}
# Private steps, as they were measured: five sites with 200 units each, 36 rounds.
SHARED: Settings = {"train.factors": "b", "step.units": 1000, "step.noise": USUAL_NOISE}


class Preset(NamedTuple):
    """What one word turns on."""

    about: str
    """Whose data it is for."""
    agreed: Settings = NOTHING
    """What all sites must have in common."""
    own: Settings = NOTHING
    """What each site decides for itself."""
    audit: Mapping[str, float] = MappingProxyType({})
    """The least strict [audit] that a site's policy.toml counts as; not where sites take private
    steps, which it cannot judge."""
    helps: Settings = NOTHING
    """Filled in too, because it costs less with the rest; any other value is as private."""


PRESETS: Mapping[str, Preset] = {
    "internal": Preset("own documents, about nobody in particular", own={"redact.secrets": True}),
    "customer-data": Preset("data of customers and staff", SUMMED, FOUND),
    "patient-data": Preset(
        "data whose leak harms a person: patients, clients of a lawyer, children",
        SUMMED,
        {**FOUND, **BOUNDED},
        # Above what was measured of replies with noise, so that it fails where noise does not work.
        {"every": 10, "max_auc": 0.75, "max_tpr": 0.1, "max_bits": 3.0},
        SHARED,
    ),
}


def least_audit(config: Any) -> Mapping[str, float]:
    """The least strict [audit] of the sites; empty = none.

    A private step sends no adapter, which is what an audit judges.
    """
    preset = PRESETS.get(config.privacy.preset or "")
    return MappingProxyType({}) if preset is None or config.step.on else preset.audit


def filled(raw: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment file with what its preset turns on, where the file says nothing."""
    privacy, made = raw.get("privacy"), dict(raw)
    name = privacy.get("preset") if isinstance(privacy, dict) else None
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        return made
    for key, value in {**preset.agreed, **preset.own, **preset.helps}.items():
        section, _, setting = key.partition(".")
        said = made.get(section, {})
        # Noise of steps that are not taken would be another agreement.
        if isinstance(said, dict) and not (section == "step" and said.get("units") == 0):
            made[section] = {setting: value, **said}
    return made


def loosened(config: Any) -> Iterator[str]:
    """What of a `Config` is looser than its preset; the schema imports this module."""
    name = config.privacy.preset
    if name is None:
        return
    preset = PRESETS[name]
    for key, value in {**preset.agreed, **preset.own}.items():
        section, _, setting = key.partition(".")
        found = getattr(getattr(config, section), setting)
        if not _as_strict(found, value):
            how = "agree on it with all sites" if key in preset.agreed else "remove that line"
            yield (
                f'privacy.preset = "{name}" needs {written(key, value)}, got {_toml(found)}: '
                f"{how}, or choose another preset (fedse privacy explain)"
            )


def written(key: str, value: bool | float | str) -> str:
    """A setting that a preset demands."""
    return f"{stated(key, value)}{' or less' if _is_number(value) else ''}"


def stated(key: str, value: bool | float | str) -> str:
    """A setting, as a file has it."""
    return f"{key} = {_toml(value)}"


def _as_strict(found: Any, value: bool | float | str) -> bool:
    if _is_number(value):
        return found is not None and bool(found <= value)
    return bool(found == value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _toml(value: Any) -> str:
    if value is None:
        return "unset"
    if _is_number(value):
        return f"{value:g}"
    return json.dumps(value)
