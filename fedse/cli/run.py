"""`fedse run CONFIG`: the experiment a TOML file describes."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.api import running
from fedse.api.engines import Engine, fan_out
from fedse.api.experiment import Experiment, Plan, load_experiment, plan
from fedse.cli.console import shown
from fedse.cli.display import Json, Mode, Plain, mode_of, print_aside
from fedse.cli.phrases import megabytes
from fedse.cli.result import print_result
from fedse.config.methods import METHODS
from fedse.config.rounds import OPEN
from fedse.config.schema import Config
from fedse.config.shipped import SHIPPED
from fedse.errors import ConfigError
from fedse.events import Observer
from fedse.observers.health import Sites
from fedse.observers.prometheus import Expiries, monitored
from fedse.results.outcome import RunResult

Set = Annotated[
    list[str],
    Parameter(
        name="--set",
        help="Change one setting, as in train.lr=1e-4; may be repeated.",
        show_default=False,
    ),
]
Out = Annotated[Path | None, Parameter(help="Folder in which the run's folder is created.")]
DryRun = Annotated[bool, Parameter(help="Check everything, start nothing.", show_default=False)]
MethodOption = Annotated[
    str | None, Parameter(help=f"A baseline or ablation: {', '.join(METHODS)}.")
]
Only = Annotated[str | None, Parameter(help="Run only this site, without the others.")]
Metrics = Annotated[
    str | None,
    Parameter(help="Serve /metrics (Prometheus) and /health, as in 127.0.0.1:9464."),
]
EngineOption = Annotated[
    Engine,
    Parameter(help="local: no network. simulation, deployment: Flower on this machine."),
]
Track = Annotated[
    list[str],
    Parameter(
        help="Send the run's numbers to tensorboard, trackio, mlflow or wandb; may be repeated.",
        show_default=False,
    ),
]


def run_verb(
    config: Annotated[
        Path, Parameter(help=f"The experiment file (TOML), or one of {', '.join(SHIPPED)}.")
    ],
    /,
    *,
    set_: Set = [],  # noqa: B006  cyclopts reads the default, nobody changes it
    out: Out = None,
    name: Annotated[
        str | None,
        Parameter(help="Name of the run's folder; default: time and run.name."),
    ] = None,
    method: MethodOption = None,
    only: Only = None,
    engine: EngineOption = "local",
    track: Track = [],  # noqa: B006  as above
    metrics: Metrics = None,
    dry_run: DryRun = False,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """All rounds of the experiment are committed in a new folder, or nothing was started."""
    experiment = load_experiment(config, settings=set_, method=method, only=only)
    mode = mode_of(sys.stderr, json=json, plain=plain)
    if dry_run:
        print_plan(plan(experiment.config, engine=engine), experiment.config, mode)
        return
    start_run(
        experiment, out=out, name=name, engine=engine, mode=mode, track=track, metrics=metrics
    )


def start_run(
    experiment: Experiment,
    *,
    out: Path | None,
    name: str | None = None,
    engine: Engine = "local",
    mode: Mode,
    track: Sequence[str] = (),
    metrics: str | None = None,
    remembered: Path | None = None,
) -> RunResult:
    """A new run has gone through all its rounds and its result is on stdout."""
    config, given = experiment
    patience = config.aggregate.deadline
    with shown(mode, config) as observer, watched(metrics, patience) as watchers:
        result = running.run(
            config,
            engine=engine,
            on_event=fan_out([observer, *watchers]),
            out=out,
            name=name,
            given=given,
            track=track,
            warn=_warn,
            remembered=remembered,
        )
    print_result(result, mode)
    return result


@contextmanager
def watched(
    address: str | None,
    patience: float,
    *,
    expiries: Expiries | None = None,
    sites: Sites | None = None,
) -> Iterator[list[Observer]]:
    """Observers that serve metrics and health on `address`; none where it is None."""
    if address is None:
        yield []
        return
    host, port = parse_address("--metrics", address, like="127.0.0.1:9464")
    with monitored(
        host, port, clock=time.monotonic, patience=patience, expiries=expiries, sites=sites
    ) as (observer, taken):
        print_aside(f"metrics and health on http://{host}:{taken}")
        yield [observer]


def parse_address(option: str, address: str, *, like: str) -> tuple[str, int]:
    """Host and port of what was given for `option`."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise ConfigError(f"{option} must look like {like}, got {address!r}")
    return host, int(port)


def _warn(message: str) -> None:
    print_aside(f"warning: {message}")


def print_plan(plan: Plan, config: Config, mode: Mode) -> None:
    """The plan is on stdout; as JSON, with the complete config."""
    if mode == "json":
        settings = config.model_dump(mode="json")
        print(json.dumps({"plan": plan.model_dump(mode="json"), "config": settings}))
        return
    each = megabytes(plan.bytes_per_round_down)
    members = ", ".join(f"{name} ({env})" for name, env in plan.clients.items())
    lines = [
        "dry run: this experiment can run here; nothing was started",
        f"sites      {len(plan.clients)}: {members}",
        f"rounds     {plan.rounds}, {plan.episodes_per_round} episodes each",
        f"adapter    {plan.adapter_parameters} parameters, {megabytes(plan.adapter_bytes)}",
        f"per round  {each} down, at most {each} up",
        f"time       {_time_text(plan)}",
        *(f"warning    {warning}" for warning in plan.warnings),
        "all settings, with their defaults: --json, or fedse config show",
    ]
    print("\n".join(lines))


def _time_text(plan: Plan) -> str:
    if plan.seconds is None:
        if plan.rounds == OPEN:
            return "without an end"
        measure = "one round shows it: --set run.rounds=1"
        return f"unknown: no earlier run of this model here; {measure}"
    rough = f"{plan.seconds / 60:.0f} min" if plan.seconds >= 120 else f"{plan.seconds:.0f} s"
    return f"about {rough}: {plan.seconds_from}"
