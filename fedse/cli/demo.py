"""`fedse demo`: see the method work on this machine, without a file, an account or a network."""

import sys
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Literal

from cyclopts import Parameter

from fedse.api.experiment import load_experiment
from fedse.cli.display import Json, Plain, mode_of
from fedse.cli.phrases import next_steps
from fedse.cli.run import Out, start_run
from fedse.config.schema import Config
from fedse.plugins import DEMOS, load_plugin, require_plugin


def demo_verb(
    which: Annotated[
        Literal["games", "desk", "live"],
        Parameter(
            help="games: five sites, a tiny model. desk: two shops, a real model. live: shops "
            "in service."
        ),
    ] = "games",
    /,
    *,
    seed: Annotated[int, Parameter(help="Every random choice follows from it.")] = 0,
    small: Annotated[
        bool, Parameter(help="desk: with smollm2-135m, where memory is short.")
    ] = False,
    out: Out = None,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """A small federated run on this machine has gone from start to result."""
    if which == "desk":
        from fedse.cli.demo_desk import desk_demo

        desk_demo(seed=seed, small=small, out=out, mode=mode_of(sys.stderr, json=json, plain=plain))
        return
    if which == "live":
        require_plugin("fedse demo live", DEMOS, "live")
        load_plugin(DEMOS, "live")(seed=seed, out=out)
        return
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
        f"{clients} sites ({worlds}) improve one small agent together, in {config.run.rounds} "
        f"rounds on this CPU. In each round every site plays {rollout} games, learns from those "
        "that succeed and sends only its adapter. Nothing leaves this machine."
    )
    return fill(text, min(get_terminal_size().columns, 100)) + "\n"
