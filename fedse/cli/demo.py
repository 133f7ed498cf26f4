"""`fedse demo`: see the method work on this machine, without a file, an account or a network."""

import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated

from cyclopts import Parameter

from fedse.api.experiment import load_experiment
from fedse.cli.display import Json, Plain, mode_of
from fedse.cli.run import Out, start_run
from fedse.config.schema import Config


def demo_verb(
    *,
    seed: Annotated[int, Parameter(help="Every random choice follows from it.")] = 0,
    out: Out = None,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """A small federated run on this machine has gone from start to result."""
    experiment = load_experiment("demo", settings={"run.seed": seed})
    mode = mode_of(sys.stderr, json=json, plain=plain)
    print(introduction(experiment.config), file=sys.stderr)
    path = start_run(experiment, out=out, mode=mode).path
    if mode != "json":
        print(next_steps(path, by_name=out is None))


def introduction(config: Config) -> str:
    """What is about to happen, before anything does."""
    clients, rollout = len(config.clients), config.rollout.episodes
    envs = [client.env for client in config.clients]
    worlds = ", ".join(f"{envs.count(env)} {env}" for env in sorted(set(envs)))
    text = (
        f"{clients} clients ({worlds}) improve one small agent together, in {config.run.rounds} "
        f"rounds on this CPU. In each round every client plays {rollout} games, learns from those "
        "it solved and sends only its adapter. Nothing leaves this machine."
    )
    return fill(text, min(get_terminal_size().columns, 100)) + "\n"


def next_steps(path: Path, *, by_name: bool) -> str:
    """Commands worth typing after the demo; a run kept elsewhere is called by its path."""
    steps = [
        ("a page about this run", f"fedse report {'last' if by_name else path} --open"),
        ("what the agent saw and did", f"fedse view {'last' if by_name else path}"),
        ("the new agent in fresh games", f"fedse eval {'last' if by_name else path}"),
        ("the same game, played by you", "fedse env play wordle"),
        ("all runs so far", "fedse runs" if by_name else f"fedse runs {path.parent}"),
        ("your own settings", f"fedse run {path / 'config.toml'} --set run.rounds=8"),
    ]
    return "\n".join(["", "next", *(f"  {about:<28}  {command}" for about, command in steps)])
