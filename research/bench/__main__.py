"""What fedse costs beside the bare tools, as ratios measured in one run."""

import json as json_format
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.api.checks import require_machine
from fedse.cli.app import start
from fedse.cli.display import Json
from fedse.cli.run import Set
from fedse.config.file import load_config
from research.bench.policies import (
    in_process_rollouts,
    print_rollouts,
    require_plain_weights,
    served_rollouts,
    with_generate,
)

if TYPE_CHECKING:
    from research.bench.fit import FitSpeed

app = App(name="python -m research.bench", help=__doc__, help_format="plaintext", help_epilogue="")

Experiment = Annotated[
    Path, Parameter(help="The experiment: its [model], [engine] and [trainer] decide.")
]


@app.command
def rollout(
    experiment: Experiment,
    /,
    *,
    episodes: Annotated[int, Parameter(help="Episodes at once.")] = 32,
    turns: Annotated[int, Parameter(help="Turns of each.")] = 8,
    new_tokens: Annotated[int, Parameter(help="Tokens of each action.")] = 20,
    repeats: Annotated[int, Parameter(help="How many times each is measured.")] = 2,
    seed: Annotated[int, Parameter(help="Decides the words.")] = 0,
    set_: Set = [],  # noqa: B006  only read
    generate: Annotated[
        bool, Parameter(help="Measure transformers' generate() too; slow.")
    ] = False,
    json: Json = False,
) -> None:
    """Tokens per second through fedse, against the bare server with the same prompts.

    Every action has exactly --new-tokens tokens, and the server forgets all prompts in between.
    With --generate also against transformers' generate() on the device, with the threads and in the
    precision of [trainer], one batch of all episodes per turn: `generate` keeps keys and values
    between turns, `re-encoded` computes every prompt anew. The in-process engine has no server, so
    it is always measured against these two, and against nothing else.

    Example: python -m research.bench rollout my.toml --episodes 32
    """
    config = load_config(experiment, set_)
    served = config.engine.type == "vllm"
    play = served_rollouts if served else in_process_rollouts
    seeds = range(seed, seed + repeats)
    if generate:
        require_plain_weights(config)
    results = list(play(config, seeds, new_tokens, episodes=episodes, turns=turns))
    if generate or not served:
        # Only now, when a server that fedse started has ended: two models need not fit in memory.
        results = with_generate(config, results, seeds)
    print_rollouts(results, json)


@app.command
def train(
    experiment: Experiment,
    /,
    *,
    lessons: Annotated[int, Parameter(help="Episodes of 150 to 500 random tokens.")] = 16,
    repeats: Annotated[int, Parameter(help="How many times each is measured, alternating.")] = 2,
    set_: Set = [],  # noqa: B006  only read
    cpu_time: Annotated[bool, Parameter(help="CPU seconds, for a busy machine.")] = False,
    json: Json = False,
) -> None:
    """Tokens per second of a fit, against a bare PEFT loop over the same batches.

    The bare loop is what PEFT's guide shows: whole batches, all logits. It has the precision and
    the attention of [trainer] too.

    Example: python -m research.bench train my.toml --lessons 16
    """
    config = load_config(experiment, set_)
    from fedse.agent.loaded import prepare_torch
    from fedse.train.lora import trainer_for
    from research.bench.fit import measure_fit, synthetic_lessons

    prepare_torch(config.trainer.threads)
    base, spec = base_path(config.model.base), spec_of(config)
    sizes = {"shortest": 150, "longest": 500, "vocabulary": vocabulary_of(base)}
    speeds = measure_fit(
        trainer_for(base, spec, config.trainer),
        initial_adapter(spec, seed=0),
        synthetic_lessons(lessons, **sizes, seed=1),
        settings=config.train.model_copy(update={"epochs": 1, "steps": None}),
        seed=1,
        repeats=repeats,
        clock=time.process_time if cpu_time else time.perf_counter,
    )
    _print_fit(list(speeds), json)


@app.command
def merge(
    *,
    megabytes: Annotated[float, Parameter(help="Size of one adapter.")] = 84.0,
    clients: Annotated[int, Parameter(help="How many are merged.")] = 10,
    repeats: Annotated[int, Parameter(help="How many times each is measured, alternating.")] = 3,
    json: Json = False,
) -> None:
    """CPU seconds of a server round's merge, against numpy's `+=` of the same mapped files.

    Ours also checks every adapter; it is measured without a clip and with that at the median.

    Example: python -m research.bench merge --megabytes 84 --clients 10
    """
    from research.bench.merge import bench_merge

    with tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder:
        sizes = {"megabytes": megabytes, "clients": clients}
        results = list(bench_merge(Path(folder), **sizes, repeats=repeats))
    if json:
        print(json_format.dumps([{**one._asdict(), "ratios": one.ratios} for one in results]))
        return
    print(f"{results[0].megabytes:.1f} MB x {clients} clients")
    for one in results:
        for name, used in one.fedse.items():
            told = f"{used:.2f} CPU-s, bare {one.bare:.2f}"
            print(f"ratio  {one.ratios[name]:.2f}, {name}: {told}")


@app.command(name="round")
def one_round(
    *,
    nodes: Annotated[int, Parameter(help="SuperNodes, each with a site.")] = 5,
    megabytes: Annotated[float, Parameter(help="Size of one adapter, about.")] = 0.24,
    rounds: Annotated[int, Parameter(help="Rounds of a turn that are counted.")] = 3,
    turns: Annotated[int, Parameter(help="How many times each is measured, alternating.")] = 1,
    simulation: Annotated[bool, Parameter(help="Virtual nodes in Flower's simulation.")] = False,
    json: Json = False,
) -> None:
    """CPU seconds of a round on Flower, against a bare app that moves the same bytes.

    Both run on this machine, as a deployment with TLS and node keys unless it is to be a
    simulation. Playing and training are left out of the ratio.

    Example: python -m research.bench round --nodes 5 --rounds 3
    """
    require_machine("simulation" if simulation else "deployment")
    from research.bench.round import bench_round, summary

    with tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder:
        result = bench_round(
            Path(folder),
            nodes=nodes,
            megabytes=megabytes,
            rounds=rounds,
            turns=turns,
            simulation=simulation,
        )
    numbers = summary(result)
    if json:
        print(json_format.dumps(numbers))
        return
    print(f"{numbers['megabytes']:.2f} MB, {nodes} nodes, {len(result.bare)} rounds of each")
    for name in ("fedse", "bare"):
        cost = numbers[name]
        print(f"{name:6} {cost['flower']:.2f} CPU-s a round in {cost['wall']:.1f} s")
    print(f"ratio  {result.ratio:.2f}; site workers {numbers['fedse']['sites']:.2f} CPU-s a round")


def vocabulary_of(base: Path) -> int:
    """How many different tokens the model has."""
    return int(json_format.loads((base / "config.json").read_text())["vocab_size"])


def _print_fit(speeds: "Sequence[FitSpeed]", json: bool) -> None:
    padding = 1 - speeds[0].fit.tokens / speeds[0].fit.padded
    if json:
        told = [
            {
                **{name: pace._asdict() for name, pace in one._asdict().items()},
                "ratios": {"bare": one.ratio},
                "padding": padding,
            }
            for one in speeds
        ]
        print(json_format.dumps(told))
        return
    for one in speeds:
        for name, pace in (("fedse", one.fit), ("bare", one.bare)):
            print(f"{name:6} {pace.tokens} tokens at {pace.tokens_per_second:.1f} a second")
        print(f"ratio  {one.ratio:.3f}; {padding:.0%} of what fedse computed was padding")


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:], app))
