"""The section [service] of a site's own file: what counts as success, and how the service runs.

[service]
engine = "http://127.0.0.1:8000"

[service.metrics.solved]
type = "boolean"
wait_days = 3

[service.metrics.rating]
type = "float"
at_least = 4

[service.verifiers.tests]
command = ["python", "judge.py"]
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from fedse.config.section import Fraction, Positive, Section
from fedse.errors import ConfigError, StoreError, boundary
from fedse.suggest import did_you_mean
from fedse_serve.canary import CanarySettings

NAME = "service"
RESERVED = ("comment", "demonstration")
"""Metrics that every service has: a text, and the answer that would have been right."""

Days = Annotated[float, Field(ge=0)]


class Metric(Section):
    """A value that applications report, and when it means success."""

    type: Literal["boolean", "float"]
    """Of its values."""
    success: bool | None = None
    """For boolean: which value is a success; unset = true."""
    at_least: float | None = None
    """For float: values of at least this are successes."""
    at_most: float | None = None
    """For float: values of at most this are successes. A float without either bound is recorded and
    decides nothing."""
    wait_days: Days = 7.0
    """Days after the end of a session in which a value is waited for."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        bounds = [name for name in ("at_least", "at_most") if getattr(self, name) is not None]
        if self.type == "boolean" and bounds:
            raise ValueError(f"{bounds[0]} is for a metric of type float, this one is boolean")
        if self.type == "float" and self.success is not None:
            raise ValueError("success is for a metric of type boolean, this one is float")
        if len(bounds) == 2 and (self.at_least or 0.0) > (self.at_most or 0.0):
            raise ValueError("at_least must not be more than at_most")
        return self

    @property
    def decides(self) -> bool:
        """Whether its values say if a session was a success."""
        return self.type == "boolean" or self.at_least is not None or self.at_most is not None

    def judged(self, value: bool | float) -> bool:
        """Whether a value is a success; the metric must be one that decides."""
        if self.type == "boolean":
            return bool(value) == (self.success is not False)
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)


class Verifier(Section):
    """What judges ended sessions: a function of this machine, or a command."""

    function: str = ""
    """`module:function`; it is given the session as a dictionary and returns True, False or None
    (it cannot tell)."""
    command: tuple[str, ...] = ()
    """Gets the session as JSON on its standard input; exit code 0 = success, 1 = failure, anything
    else = it cannot tell."""
    seconds: Annotated[float, Field(gt=0)] = 60.0
    """How long the command may take for one session."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.function) == bool(self.command):
            raise ValueError('expected either function = "module:function" or command = [...]')
        if self.function and not all(self.function.partition(":")[::2]):
            raise ValueError(f'function must be "module:function", got {self.function!r}')
        return self


class ServiceSettings(Section):
    """How a site's agent is in service."""

    engine: str = "http://127.0.0.1:8000"
    """The vLLM server that samples."""
    held_out: Fraction = 0.2
    """Share of people, or of sessions of nobody known, that is evaluated on and never learned."""
    retention_days: Positive = 90
    """Sessions whose last turn is older are removed."""
    sticky: Literal["session", "person"] = "session"
    """Whether all sessions of a person are served by one arm."""
    idle_minutes: Annotated[float, Field(gt=0)] = 30.0
    """A session without a turn for so long has ended."""
    metrics: dict[str, Metric] = Field(default_factory=dict)
    """By name."""
    verifiers: dict[str, Verifier] = Field(default_factory=dict)
    """By name; their verdicts count like a boolean metric's values."""
    canary: CanarySettings = CanarySettings()

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        for name in (*self.metrics, *self.verifiers):
            if name in RESERVED:
                raise ValueError(f"the metric {name!r} is built in, choose another name")
        if both := self.metrics.keys() & self.verifiers.keys():
            raise ValueError(f"{min(both)!r} is a metric and a verifier, choose another name")
        return self


def settings_file(folder: Path) -> Path:
    """The file with the settings of the service in `folder`: its own, else that of its site."""
    own = folder / "site.toml"
    return own if own.is_file() else folder.parent / "site.toml"


def read_settings(site: Path) -> ServiceSettings:
    """The section [service] of a site's file; without one, everything is as it is by default."""
    with boundary(StoreError, f"{site}"):
        given = tomllib.loads(site.read_text(encoding="utf-8")).get(NAME, {})
    return parse_settings(given, str(site))


def parse_settings(given: Mapping[str, Any], source: str) -> ServiceSettings:
    """The settings in `given`; errors name `source` as the file."""
    try:
        # JSON, because only there strict mode takes a list for a tuple.
        return ServiceSettings.model_validate_json(json.dumps(given, default=str), strict=True)
    except ValidationError as error:
        told = [_told(one["type"], one["loc"], one["msg"], one["input"]) for one in error.errors()]
        raise ConfigError(
            "\n".join([f"{source} has wrong settings, nothing was started", *told]),
            hint=f"correct [{NAME}] in {source}",
        ) from None


def _told(kind: str, place: tuple[int | str, ...], message: str, got: object) -> str:
    name = ".".join(map(str, (NAME, *place)))
    if kind == "extra_forbidden":
        near = did_you_mean(str(place[-1]), _model_at(place[:-1]).model_fields)
        return f"  {name} is not a setting{near}"
    if kind == "value_error":
        return f"  {name}: {message.removeprefix('Value error, ')}"
    return f"  {name}: {message[0].lower()}{message[1:]}, got {got!r:.60}"


def _model_at(place: tuple[int | str, ...]) -> type[BaseModel]:
    """The model whose keys stand at `place` of the section."""
    model: type[BaseModel] = ServiceSettings
    named: Mapping[int | str, type[BaseModel]] = {"metrics": Metric, "verifiers": Verifier}
    for key in place:
        if key in named:
            model = named[key]
        elif isinstance(key, str) and key in model.model_fields:
            kind = model.model_fields[key].annotation
            model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else model
    return model
