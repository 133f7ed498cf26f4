"""The site's own rules, in a file the site owns; the server may tighten them and never loosen.

Read again at every request, so a change counts at once, and a file that cannot be read refuses
everything. Nothing in a request can change a rule: it names the work and carries no settings.
"""

import json
import tomllib
from pathlib import Path
from typing import Annotated

import tomlkit
from pydantic import Field, ValidationError

from fedse.config.schema import Config
from fedse.config.section import Positive, Section
from fedse.errors import ConfigError, FedSEError
from fedse.faults import Fault
from fedse.protocol import Request
from fedse.store.files import write_durably


class SiteRules(Section):
    experiments: tuple[str, ...]
    """Experiments this site takes part in; a request for any other is refused."""
    max_rounds: Annotated[int, Field(ge=0)]
    """No round with a higher number is worked on."""
    max_bytes_up: Annotated[int, Field(ge=0)]
    """A round whose adapter has more bytes than this is not worked on."""
    pause: bool = False
    """While true the site answers without a vote and does no work."""
    veto_drop: Annotated[float, Field(ge=0, le=1)] | None = None
    """A global adapter that solves fewer of this site's validation games than the last one it
    accepted, by more than this share, is not trained from. Unset = never."""
    veto_games: Positive = 40
    """Validation games a new global adapter plays for the veto."""
    earlier_rounds: bool = False
    """While true a round before the newest one this site finished is worked on when it is asked
    with another adapter than before, as by a server restored from a backup; else it is refused."""


class RuleRefusal(FedSEError):
    """The site's rules forbid the request; only its fault number leaves the site."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message, hint="if you want to allow it, change the site's policy.toml")
        self.exit_code = fault


def first_rules(config: Config, *, adapter_bytes: int) -> SiteRules:
    """What was agreed on, and no more."""
    return SiteRules(
        experiments=(config.run.name,),
        max_rounds=config.run.rounds,
        max_bytes_up=adapter_bytes,
    )


def require_allowed(
    policy: SiteRules, request: Request, config: Config, adapter_bytes: int
) -> None:
    """The site's rules and the agreed settings both allow this request; no work was done yet."""
    if request.experiment not in policy.experiments:
        allowed = ", ".join(policy.experiments) or "none"
        raise RuleRefusal(
            Fault.OTHER_EXPERIMENT,
            f"asked for experiment {request.experiment!r}, allowed: {allowed}",
        )
    most = min(policy.max_rounds, config.run.rounds)
    # After the last round the last adapter is measured once more, without training.
    last = most if request.train else most + 1
    if not 1 <= request.round <= last:
        raise RuleRefusal(
            Fault.TOO_MANY_ROUNDS, f"asked for round {request.round}, the last is {last}"
        )
    if request.train and adapter_bytes > policy.max_bytes_up:
        raise RuleRefusal(
            Fault.TOO_MANY_BYTES,
            f"an adapter has {adapter_bytes} bytes, max_bytes_up is {policy.max_bytes_up}",
        )


def require_current(request: Request, newest: int | None) -> None:
    """The round is not before `newest`, the newest this site finished in the experiment."""
    if newest is not None and request.round < newest:
        raise RuleRefusal(
            Fault.STALE,
            f"asked for round {request.round} with a new request, the newest round "
            f"finished here is {newest}; earlier_rounds = true would allow it",
        )


def read_rules(path: Path) -> SiteRules:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        # JSON, because only there strict mode takes a list for a tuple.
        return SiteRules.model_validate_json(json.dumps(raw, default=str), strict=True)
    except OSError as error:
        raise ConfigError(f"cannot read policy {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"policy {path} is not TOML: {error}", hint=f"correct {path}") from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)
        )
        raise ConfigError(f"policy {path}: {problems}", hint=f"correct {path}") from None


def write_rules(path: Path, policy: SiteRules) -> None:
    """`path` holds the rules, each with what it means; an unset one is there as a comment."""
    lines = ["# This file is yours. The federation's server can neither read nor change it.", ""]
    values = policy.model_dump(mode="json")
    for name, field in SiteRules.model_fields.items():
        lines += [f"# {line}" for line in (field.description or "").splitlines()]
        value = values[name]
        set_ = tomlkit.item(value).as_string() if value is not None else ""
        lines += [f"{name} = {set_}" if value is not None else f"# {name} = 0.2", ""]
    write_durably(path, "\n".join(lines).encode())


def set_pause(path: Path, paused: bool) -> None:
    """Only `pause` is changed; the owner's comments and other rules stay as they are."""
    read_rules(path)
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["pause"] = paused
    write_durably(path, tomlkit.dumps(document).encode())
