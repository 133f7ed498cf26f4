"""`fedse run CONFIG`: the experiment a TOML file describes."""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fedse.adapters.base import spec_of
from fedse.cli.console import shown
from fedse.cli.display import Json, Mode, Plain, mode_of
from fedse.cli.drive import (
    Engine,
    drive,
    fan_out,
    require_local,
    require_machine,
    require_members,
    root_of,
    tell_result,
)
from fedse.cli.phrases import megabytes
from fedse.config.file import dump_config, load_config
from fedse.config.methods import METHODS, one_experiment
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.events import Observer
from fedse.observers.prometheus import monitored
from fedse.observers.trackers import Tracker, require_trackers, tracked
from fedse.store.run_folder import create_run

Set = Annotated[
    list[str],
    Parameter(
        name="--set",
        help="Change one setting, as in train.lr=1e-4; may be repeated.",
        show_default=False,
    ),
]
Out = Annotated[Path | None, Parameter(help="Folder the run's own folder is made in.")]
DryRun = Annotated[bool, Parameter(help="Check everything, start nothing.", show_default=False)]
MethodOption = Annotated[
    str | None, Parameter(help=f"A baseline or ablation: {', '.join(METHODS)}.")
]
Only = Annotated[str | None, Parameter(help="This client alone, the others left out.")]
Metrics = Annotated[
    str | None,
    Parameter(help="Serve /metrics (Prometheus) and /health, as in 127.0.0.1:9464."),
]
EngineOption = Annotated[
    Engine, Parameter(help="local: no network. simulation, deployment: Flower on this machine.")
]
Track = Annotated[
    list[Tracker],
    Parameter(help="Tell a tracker the run's numbers; may be repeated.", show_default=False),
]


def run_verb(
    config: Annotated[Path, Parameter(help="The experiment file (TOML).")],
    /,
    *,
    set_: Set = [],  # noqa: B006  cyclopts reads the default, nobody changes it
    out: Out = None,
    name: Annotated[str | None, Parameter(help="Name of the run's folder; default: time.")] = None,
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
    settings = one_experiment(load_config(config, set_), method, only)
    require_members(settings)
    mode = mode_of(sys.stderr, json=json, plain=plain)
    if dry_run:
        tell_plan(settings, mode)
        return
    given, root = config.read_text(), root_of(out)
    start_run(
        settings,
        given,
        root,
        name=name,
        engine=engine,
        mode=mode,
        track=track,
        metrics=metrics,
    )


def start_run(
    config: Config,
    given: str,
    root: Path,
    *,
    name: str | None,
    engine: Engine,
    mode: Mode,
    track: Sequence[Tracker] = (),
    metrics: str | None = None,
) -> Path:
    """A new run has gone through all its rounds and its result is told; its folder."""
    require_machine(engine)
    require_local(config, engine)
    require_trackers(track)
    patience = config.aggregate.deadline
    with shown(mode, config) as observer, watched(metrics, patience) as watchers:
        observers = [observer, *watchers]
        tell = fan_out(observers)
        run = create_run(
            root,
            config,
            given=given,
            name=name,
            now=datetime.now(),
            clock=time.time,
            observers=[tell],
        )
        observers += tracked(track, run.path, config, environ=os.environ, warn=_warn)
        drive(run, engine, tell)
    with closing(run):
        tell_result(run, mode)
    return run.path


@contextmanager
def watched(address: str | None, patience: float) -> Iterator[list[Observer]]:
    """Observers that serve metrics and health on `address`; none where it is None."""
    if address is None:
        yield []
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise ConfigError(f"--metrics must look like 127.0.0.1:9464, got {address!r}")
    with monitored(host, int(port), clock=time.time, patience=patience) as (observer, taken):
        print(f"metrics and health on http://{host}:{taken}", file=sys.stderr, flush=True)
        yield [observer]


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def plan_of(config: Config) -> dict[str, Any]:
    """What a run of `config` would do and send."""
    spec, clients = spec_of(config), len(config.clients)
    return {
        "clients": {client.name: client.env for client in config.clients},
        "rounds": config.run.rounds,
        "episodes_per_round": config.rollout.episodes * clients,
        "adapter_parameters": spec.size,
        "adapter_bytes": spec.nbytes,
        "bytes_per_round_down": spec.nbytes * clients,
        "bytes_per_round_up_at_most": spec.nbytes * clients,
        "spec_digest": spec.digest,
        "agreed_digest": config.agreed_digest(),
    }


def tell_plan(config: Config, mode: Mode) -> None:
    """The plan and the complete config are on stdout, as TOML that can be run, or as JSON."""
    plan = plan_of(config)
    if mode == "json":
        print(json.dumps({"plan": plan, "config": config.model_dump(mode="json")}))
        return
    each = plan["bytes_per_round_down"]
    members = ", ".join(f"{name} ({env})" for name, env in plan["clients"].items())
    lines = [
        "dry run: the settings are right, nothing was started",
        f"clients    {len(plan['clients'])}: {members}",
        f"rounds     {plan['rounds']}, {plan['episodes_per_round']} episodes each",
        f"adapter    {plan['adapter_parameters']} parameters, {megabytes(plan['adapter_bytes'])}",
        f"per round  {megabytes(each)} down, at most {megabytes(each)} up",
    ]
    print("\n".join(f"# {line}" for line in lines))
    print(dump_config(config), end="")
