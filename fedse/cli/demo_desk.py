"""`fedse demo desk`: two shops improve one agent with tools, on a real model; and each alone."""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from fedse.adapters.base import base_path, models_root
from fedse.api import running
from fedse.api.experiment import Experiment, load_experiment
from fedse.cli.console import shown
from fedse.cli.desk_transcript import show_one_customer
from fedse.cli.display import Mode
from fedse.cli.phrases import next_steps
from fedse.cli.run import start_run
from fedse.config.methods import newcomers
from fedse.config.schema import Config
from fedse.errors import MachineError
from fedse.models.number_format import computes_in_bfloat16
from fedse.results.alone import SeedRuns, TogetherOrAlone, together_or_alone
from fedse.results.outcome import RunResult
from fedse.stats.paired import Difference
from fedse.stats.rates import Rate, micro

ALONE = "local-evolve"
"""The method in which each client explores and learns by itself."""
SMALL = {
    "model.base": "smollm2-135m",
    "buffer.demonstrations": 16,
    "train.lr": 1e-3,
    "train.batch": 4,
}
"""For machines without the 5 GB that training the larger model takes."""
SIZES = {"qwen2.5-coder-0.5b": "491 MB to fetch, 1 GB on disk", "smollm2-135m": "273 MB"}


def desk_demo(*, seed: int, small: bool, out: Path | None, mode: Mode) -> None:
    """The shops have learned together and alone; results, differences and one game are printed."""
    settings = {"run.seed": seed, **(SMALL if small else fast_format())}
    experiment = load_experiment("desk", settings=settings)
    config, last = experiment.config, newcomers(experiment.config)
    require_model(config, small=small)
    print(introduction(config), file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="fedse-demo-") as folder:
        shared = Path(folder)
        together = start_run(experiment, out=out, mode=mode, remembered=shared)
        alone = {
            client.name: _alone(experiment, client.name, out, mode, shared).path
            for client in config.clients
            if client not in last
        }
    runs = SeedRuns(together.path, alone)
    found = together_or_alone(runs)
    there = {client.name: together_or_alone(runs, at=client.name) for client in last}
    if mode == "json":
        print(json.dumps(difference_json(found, there, runs)))
        return
    print("\n".join(["", *difference_lines(found, there)]))
    show_one_customer(together.path, [*alone.values()])
    print(next_steps(together.path, by_name=False, env="desk"))


def fast_format() -> dict[str, str]:
    """bfloat16 where this CPU has instructions for it, else as in the experiment's file."""
    return {"trainer.precision": "bfloat16"} if computes_in_bfloat16() else {}


def require_model(config: Config, *, small: bool) -> None:
    """The base model is on this machine, or the error says how to get it."""
    try:
        base_path(config.model.base)
    except MachineError as error:
        base = config.model.base
        raise MachineError(
            f"this demo needs the model {base} ({SIZES[base]}), which is not in "
            f"{models_root(os.environ)}",
            hint=f"{error.hint}, then: fedse demo desk{' --small' if small else ''}",
        ) from error


def introduction(config: Config) -> str:
    """What is about to happen, and how long it takes."""
    last = newcomers(config)
    names = " and ".join(client.name for client in config.clients if client not in last)
    new = " and ".join(client.name for client in last)
    text = (
        f"The shops {names} improve one agent together: it serves customers with tools, by the "
        f"rules of each shop. The model is {config.model.base}, in {config.trainer.precision} on "
        f"this CPU. In each of {config.run.rounds} rounds a shop sends only its adapter. The shop "
        f"{new} then tries what they have learned. After that each shop does the same alone, for "
        "comparison. This takes about 15 minutes on two free cores, and less in bfloat16. Nothing "
        "leaves this machine."
    )
    return fill(text, min(get_terminal_size().columns, 100)) + "\n"


def _alone(
    experiment: Experiment, client: str, out: Path | None, mode: Mode, shared: Path
) -> RunResult:
    lone = load_experiment(experiment.config, method=ALONE, only=client)
    if mode != "json":
        print(f"\n{client} alone", file=sys.stderr)
    with shown(mode, lone.config) as observer:
        return running.run(
            lone.config, on_event=observer, out=out, given=lone.given, remembered=shared
        )


Row = tuple[str, Rate, Rate, Difference]


def difference_lines(
    found: TogetherOrAlone, there: dict[str, TogetherOrAlone] | None = None
) -> list[str]:
    """Per site and overall: both rates and their difference, at most 66 columns."""
    rows = _rows(found)
    games = sum(rate.n for rate in found.together.values())
    lines = [f"together against alone, the same {games} held-out games (95 % interval)"]
    lines += _lines(rows)
    for name, at in (there or {}).items():
        first = next(iter(at.together.values()))
        lines += [f"the same in {first.n} games at {name}, from where nobody has learned"]
        new = _rows(at)[:-1]
        rows += new
        lines += _lines(new)
    if any(one.low <= 0 <= one.high for *_, one in rows):
        lines += ["  * the interval includes 0: may be chance"]
    return lines


def _rows(found: TogetherOrAlone) -> list[Row]:
    groups = found.difference.groups
    rows = [(name, found.together[name], found.alone[name], groups[name]) for name in groups]
    all_games = micro([*found.together.values()]), micro([*found.alone.values()])
    return [*rows, ("all", *all_games, found.difference.micro)]


def _lines(rows: Sequence[Row]) -> list[str]:
    width = max(len(name) for name, *_ in rows)
    return [
        f"  {name:<{width}}  {together.value:.2f}, alone {alone.value:.2f}"
        f"  {one.value:+.2f}{'*' if one.low <= 0 <= one.high else ' '}"
        f" ({one.low:+.2f} to {one.high:+.2f})"
        for name, together, alone, one in rows
    ]


def difference_json(
    found: TogetherOrAlone, there: dict[str, TogetherOrAlone], runs: SeedRuns
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "event": "together_or_alone",
        **_found_json(found),
        "newcomers": {name: _found_json(at) for name, at in there.items()},
        "together": str(runs.together),
        "alone": {client: str(path) for client, path in runs.alone.items()},
    }


def _found_json(found: TogetherOrAlone) -> dict[str, Any]:
    *clients, overall = _rows(found)
    return {
        "clients": {
            name: {"together": t.value, "alone": a.value, "difference": one._asdict()}
            for name, t, a, one in clients
        },
        "all": overall[-1]._asdict(),
    }
