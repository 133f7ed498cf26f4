"""The site's own rules, in a file the site owns; the server may tighten them and never loosen.

Read again at every request, so a change counts at once, and a file that cannot be read refuses
everything. Nothing in a request can change a rule: it names the work and carries no settings.

The rules are a budget. Each answer tells something about what the site learned from; so a round is
worked on with one adapter, and no more answers are given than `max_rounds` says.
"""

import json
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

import tomlkit
from pydantic import Field, ValidationError

from fedse.audit.verdict import AuditRules
from fedse.config.presets import least_audit
from fedse.config.schema import Config
from fedse.config.section import Positive, Section
from fedse.errors import ConfigError, FedSEError
from fedse.faults import Fault
from fedse.protocol import Question
from fedse.store.files import write_durably


class SiteRules(Section):
    experiments: tuple[str, ...]
    """Experiments this site takes part in; a request for any other is refused."""
    max_rounds: Annotated[int, Field(ge=0)]
    """No more rounds than this are worked on in all, and none with a higher number; where the
    experiment has no end, its number does not matter."""
    max_bytes_up: Annotated[int, Field(ge=0)]
    """A round whose adapter has more bytes than this is not worked on."""
    pause: bool = False
    """While true the site answers without a vote and does no work."""
    veto_drop: Annotated[float, Field(ge=0, le=1)] | None = None
    """A global adapter that solves fewer of this site's validation games than the base model, or
    than the last one it accepted, by more than this share, is not trained from. Unset = never, as
    it must be where the experiment has no validation games (`splits.validation`)."""
    veto_games: Positive = 40
    """Validation games a new global adapter plays for the veto."""
    earlier_rounds: bool = False
    """While true a round before the newest one this site finished is worked on when it is asked
    with another adapter than before, as by a server restored from a backup; else it is refused.
    Such a round counts again: raise max_rounds by as many."""
    max_skipped: Annotated[int, Field(ge=0)] | None = None
    """A round that leaves out more than this many after the newest one this site finished is
    refused. Unset = any number, so that a site that was away can return by itself."""
    accept: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Settings that an amendment of the agreement may change without asking you, such as
    `{"train.lr" = [1e-5, 1e-3]}`: the least and the most of a number, every allowed value of
    anything else. An amendment that changes anything more waits for `fedse site agreement`."""
    audit: AuditRules = AuditRules()
    """Before an adapter leaves, what it tells about your lessons can be measured; one that tells
    too much stays here, and the server gets a number for that. Above `every = 0` a round in which
    it is due takes many times as long."""


LIMITS = ("max_auc", "max_tpr", "max_bits")
"""Of an audit: the lower, the stricter."""
OPEN_ROUNDS = 1000
"""The first rules' `max_rounds` where the experiment has no end: almost three years of days."""
VETO_DROP = 0.2
"""The first rules' `veto_drop`: with 40 games, twice the standard error of a difference."""
EXAMPLES = {"veto_drop": str(VETO_DROP), "max_skipped": "0"}
"""What an unset rule is shown with."""
TRAINING = ("train", "news")
"""Questions of rounds up to the last one; the others may also come after it."""
WORK, VALIDATION = "work", "validation"
"""Kinds of requests that are counted apart: rounds, and games that decide on a merged adapter."""


class RuleRefusal(FedSEError):
    """The site's rules forbid the request; only its fault number leaves the site."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message, hint="if you want to allow it, change the site's policy.toml")
        self.exit_code = fault


def first_rules(config: Config, *, adapter_bytes: int) -> SiteRules:
    """What was agreed on, and no more."""
    return SiteRules(
        experiments=(config.run.name,),
        max_rounds=OPEN_ROUNDS if config.run.open else config.run.last,
        max_bytes_up=adapter_bytes,
        veto_drop=VETO_DROP if config.splits.validation else None,
    )


def in_force(rules: SiteRules, config: Config) -> SiteRules:
    """The site's rules; its audit is no looser than that of its preset, if it has one."""
    demanded = least_audit(config)
    if not demanded:
        return rules
    own, least = rules.audit, AuditRules.model_validate(demanded)
    rounds = [audit.every for audit in (own, least) if audit.every]
    strict = {key: min(getattr(own, key), getattr(least, key)) for key in LIMITS}
    audit = own.model_copy(update={**strict, "every": min(rounds)})
    return rules.model_copy(update={"audit": audit})


def require_allowed(
    policy: SiteRules, question: Question, config: Config, adapter_bytes: int
) -> None:
    """The site's rules and the agreed settings both allow this request; no work was done yet."""
    if question.experiment not in policy.experiments:
        allowed = ", ".join(policy.experiments) or "none"
        raise RuleRefusal(
            Fault.OTHER_EXPERIMENT,
            f"asked for experiment {question.experiment!r}, allowed: {allowed}",
        )
    # A site may join an experiment without an end in any round: how many it answers is counted.
    most = config.run.last if config.run.open else min(policy.max_rounds, config.run.last)
    # After the last round the last adapter is measured once more, without training.
    last = most + (question.kind not in TRAINING)
    if not 1 <= question.round <= last:
        raise RuleRefusal(
            Fault.TOO_MANY_ROUNDS, f"asked for round {question.round}, the last is {last}"
        )
    if question.trains and adapter_bytes > policy.max_bytes_up:
        raise RuleRefusal(
            Fault.TOO_MANY_BYTES,
            f"an adapter has {adapter_bytes} bytes, max_bytes_up is {policy.max_bytes_up}",
        )


def require_current(question: Question, newest: int | None) -> None:
    """The round is not before `newest`, the newest this site finished in the experiment."""
    if newest is not None and question.round < newest:
        raise RuleRefusal(
            Fault.STALE,
            f"asked for round {question.round} with a new request, the newest round "
            f"finished here is {newest}; earlier_rounds = true would allow it",
        )


def require_near(policy: SiteRules, question: Question, newest: int | None) -> None:
    """Not more rounds are skipped than the site allows; a site's first round may be any."""
    if policy.max_skipped is None or newest is None:
        return
    if question.round - newest > policy.max_skipped + 1:
        raise RuleRefusal(
            Fault.TOO_FAR_AHEAD,
            f"asked for round {question.round}, the newest round finished here is {newest} and "
            f"max_skipped is {policy.max_skipped}",
        )


def require_budget(
    policy: SiteRules, question: Question, config: Config, *, tried: Collection[str], done: int
) -> None:
    """Something is left for this request. `tried` are the adapters of its round so far, and `done`
    is how many requests of its kind were worked on.

    A merged adapter may be tried without some of its votes, as often as the agreed gate does.
    """
    if question.adapter in tried:
        return
    gated = 3 + config.gate.liars * (1 + len(config.clients))
    tries = gated if question.kind == "validate" else 1
    if not policy.earlier_rounds and len(tried) >= tries:
        raise RuleRefusal(
            Fault.OTHER_ADAPTER,
            f"asked for round {question.round} with another adapter than before; "
            "earlier_rounds = true would allow it",
        )
    # After the last round the last adapter is measured once more.
    most = policy.max_rounds + (question.kind not in TRAINING)
    if question.kind != "validate" and done >= most:
        raise RuleRefusal(
            Fault.TOO_MANY_ROUNDS,
            f"asked for a round more, max_rounds is {policy.max_rounds} and as many are done",
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
    lines += _written(policy)
    write_durably(path, "\n".join(lines).encode())


def _written(rules: Section) -> Iterator[str]:
    """The lines of all rules; a table comes after the rules that stand alone."""
    values = rules.model_dump(mode="json")
    for name, field in type(rules).model_fields.items():
        value, table = values[name], getattr(rules, name)
        yield from (f"# {line}" for line in (field.description or "").splitlines())
        if isinstance(table, Section):
            yield from (f"[{name}]", "", *_written(table))
        elif value is None:
            yield from (f"# {name} = {EXAMPLES[name]}", "")
        else:
            yield from (f"{name} = {_in_one_line(value)}", "")


def _in_one_line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(tomlkit.item(value).as_string())
    table = tomlkit.inline_table()
    table.update(value)
    return table.as_string()


def set_pause(path: Path, paused: bool) -> None:
    """Only `pause` is changed; the owner's comments and other rules stay as they are."""
    read_rules(path)
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["pause"] = paused
    write_durably(path, tomlkit.dumps(document).encode())
