"""`fedse demo desk`: two shops improve one agent with tools, on a real model; and each alone."""

import json
import os
import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from fedse.adapters.base import base_path, models_root
from fedse.api import running
from fedse.api.experiment import Experiment, load_experiment
from fedse.cli.console import shown
from fedse.cli.display import Mode
from fedse.cli.phrases import next_steps
from fedse.cli.run import start_run
from fedse.cli.transcript import console_for, show_episode
from fedse.config.schema import Config
from fedse.envs.desk.shops import SHOPS
from fedse.errors import MachineError
from fedse.exports.before_after import before_and_after
from fedse.exports.episodes import find_place, list_episodes, load_texts
from fedse.results.alone import SeedRuns, TogetherOrAlone, together_or_alone
from fedse.results.outcome import RunResult
from fedse.stats.rates import micro

ALONE = "local-evolve"
"""The method in which each client explores and learns by itself."""


def desk_demo(*, seed: int, out: Path | None, mode: Mode) -> None:
    """The shops have learned together and alone; results, differences and one game are printed."""
    experiment = load_experiment("desk", settings={"run.seed": seed})
    require_model(experiment.config)
    print(introduction(experiment.config), file=sys.stderr)
    together = start_run(experiment, out=out, mode=mode)
    alone = {
        client.name: _alone(experiment, client.name, out, mode).path
        for client in experiment.config.clients
    }
    runs = SeedRuns(together.path, alone)
    found = together_or_alone(runs)
    if mode == "json":
        print(json.dumps(difference_json(found, runs)))
        return
    print("\n".join(["", *difference_lines(found)]))
    show_before_and_after(together.path)
    print(next_steps(together.path, by_name=False, env="desk"))


def require_model(config: Config) -> None:
    """The base model is on this machine, or the error says how to get it."""
    try:
        base_path(config.model.base)
    except MachineError as error:
        base = config.model.base
        raise MachineError(
            f"this demo needs the model {base} (273 MB), which is not in {models_root(os.environ)}",
            hint=f"{error.hint}, then: fedse demo desk",
        ) from error


def introduction(config: Config) -> str:
    """What is about to happen, and how long it takes."""
    names = " and ".join(client.name for client in config.clients)
    text = (
        f"The shops {names} improve one agent together: it serves customers with tools, by the "
        f"rules of each shop. The model is {config.model.base}, on this CPU. In each of "
        f"{config.run.rounds} rounds a shop sends only its adapter. Then each shop does the same "
        "alone, for comparison. This takes about 15 minutes on two free cores. Nothing leaves "
        "this machine."
    )
    return fill(text, min(get_terminal_size().columns, 100)) + "\n"


def _alone(experiment: Experiment, client: str, out: Path | None, mode: Mode) -> RunResult:
    lone = load_experiment(experiment.config, method=ALONE, only=client)
    if mode != "json":
        print(f"\n{client} alone", file=sys.stderr)
    with shown(mode, lone.config) as observer:
        return running.run(lone.config, on_event=observer, out=out, given=lone.given)


def difference_lines(found: TogetherOrAlone) -> list[str]:
    """Per site and overall: both rates and their difference, at most 60 columns."""
    games = sum(rate.n for rate in found.together.values())
    lines = [f"together against alone, the same {games} held-out games (95 % interval)"]
    rows = {client: (found.together[client], found.alone[client]) for client in found.together}
    rows["all"] = micro(list(found.together.values())), micro(list(found.alone.values()))
    differences = {**found.difference.groups, "all": found.difference.micro}
    width = max(map(len, rows))
    for name, (together, alone) in rows.items():
        one = differences[name]
        doubt = "*" if one.low <= 0 <= one.high else " "
        lines += [
            f"  {name:<{width}}  {together.value:.2f}, alone {alone.value:.2f}"
            f"  {one.value:+.2f}{doubt} ({one.low:+.2f} to {one.high:+.2f})"
        ]
    if any(one.low <= 0 <= one.high for one in differences.values()):
        lines += ["  * the interval includes 0: may be chance"]
    return lines


def difference_json(found: TogetherOrAlone, runs: SeedRuns) -> dict[str, Any]:
    """The same for programs."""
    clients = {
        client: {
            "together": found.together[client].value,
            "alone": found.alone[client].value,
            "difference": found.difference.groups[client]._asdict(),
        }
        for client in found.together
    }
    return {
        "event": "together_or_alone",
        "clients": clients,
        "all": found.difference.micro._asdict(),
        "together": str(runs.together),
        "alone": {client: str(path) for client, path in runs.alone.items()},
    }


def rule_text(task: str) -> str:
    """What the shop of this task does in its case, such as `books/Ines-late-0-by-order`."""
    shop, _, rest = task.partition("/")
    case = rest.split("-")[1]
    return f"the rule of the shop {shop!r} for an order that is {case}: {SHOPS[shop].rules[case]}"


def show_before_and_after(run: Path) -> None:
    """The same customer, served by the first adapter and by the last one, is on stdout."""
    pair = before_and_after(list_episodes(find_place(str(run), run.parent)))
    if pair is None:
        return
    console = console_for(plain=False)
    print("\nthe same customer before and after")
    print(rule_text(pair.before.game.task))
    for episode, trajectory in load_texts(pair):
        print()
        show_episode(console, episode, trajectory)
