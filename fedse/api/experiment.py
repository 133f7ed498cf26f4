"""An experiment from a file, a name or a Config, and what a run of it would do."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from fedse.adapters.base import spec_of
from fedse.aggregate.factors import travelling_spec
from fedse.api.checks import rehearse, require_runnable
from fedse.api.engines import Engine
from fedse.config.file import dump_config, experiment_text, parse_config
from fedse.config.methods import one_experiment
from fedse.config.rounds import Rounds
from fedse.config.schema import Config
from fedse.results.pace import earlier_pace, planned_games
from fedse.store.run_folder import runs_root
from fedse.types import Record

Source = str | Path | Config
"""A TOML file, the name of a shipped experiment (`demo`), or a Config."""
Settings = Sequence[str] | Mapping[str, Any]
"""As on the command line, ["train.lr=1e-4"], or {"train.lr": 1e-4}."""


class Experiment(NamedTuple):
    """Checked settings, and the TOML text they came from."""

    config: Config
    given: str


class Plan(Record):
    """What a run would do and send."""

    clients: dict[str, str]
    """Name -> environment."""
    rounds: Rounds
    episodes_per_round: int
    adapter_parameters: int
    adapter_bytes: int
    bytes_per_round_down: int
    bytes_per_round_up_at_most: int
    spec_digest: str
    agreed_digest: str
    seconds: float | None = None
    """Estimated from an earlier run of the same model on this machine; None = no such run."""
    seconds_from: str = ""
    """What the estimate is based on."""
    warnings: tuple[str, ...] = ()
    """What will keep the agent from learning, and what to do."""


def load_experiment(
    source: Source,
    *,
    settings: Settings = (),
    method: str | None = None,
    only: str | None = None,
) -> Experiment:
    """The experiment with `settings`, as baseline `method`, limited to the client `only`."""
    if isinstance(source, Config):
        given, source_name = dump_config(source), source.run.name
    else:
        given, source_name = experiment_text(Path(source)), str(source)
    config = parse_config(given, source_name, _overrides(settings))
    return Experiment(one_experiment(config, method, only), given)


def _overrides(settings: Settings) -> Sequence[str]:
    if not isinstance(settings, Mapping):
        return settings
    return [f"{key}={tomlkit.item(value).as_string()}" for key, value in settings.items()]


def plan(source: Source, *, engine: Engine = "local", **changes: Any) -> Plan:
    """What a run would do; raises any error that the run would raise before its first round."""
    config = load_experiment(source, **changes).config
    require_runnable(config, engine)
    # A run finds this out when a site is opened, where the tokenizer is loaded anyway.
    warnings = rehearse(config)
    spec, clients = spec_of(config), len(config.clients)
    sent = travelling_spec(spec, config).nbytes
    seconds, based_on = _expected_seconds(config)
    return Plan(
        clients={client.name: client.env for client in config.clients},
        rounds=config.run.rounds,
        episodes_per_round=config.rollout.episodes * clients,
        adapter_parameters=spec.size,
        adapter_bytes=spec.nbytes,
        bytes_per_round_down=sent * clients,
        bytes_per_round_up_at_most=sent * clients,
        spec_digest=spec.digest,
        agreed_digest=config.agreed_digest(),
        seconds=seconds,
        seconds_from=based_on,
        warnings=tuple(warnings),
    )


def _expected_seconds(config: Config) -> tuple[float | None, str]:
    pace, games = earlier_pace(runs_root(os.environ), config), planned_games(config)
    if pace is None or not games:
        return None, ""
    worlds = "and environments" if pace.same_worlds else "but other environments"
    how = f"{games} games at {pace.seconds:.2g} s each, training included, as in {pace.run}"
    return pace.seconds * games, f"{how} (same model {worlds})"
