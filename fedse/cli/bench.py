"""`fedse bench`: what fedse costs beside the bare tools, as ratios measured in one run."""

import json as json_format
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.api.checks import require_machine
from fedse.api.engines import acting_engine
from fedse.cli.display import Json
from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.events import silent

if TYPE_CHECKING:
    from fedse.bench.rollout import RolloutBench
    from fedse.train.speed import FitSpeed

app = App(name="bench", help_format="plaintext", help_epilogue="")

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
    repeats: Annotated[int, Parameter(help="How often both are measured.")] = 2,
    seed: Annotated[int, Parameter(help="Decides the words.")] = 0,
    json: Json = False,
) -> None:
    """Tokens per second through fedse, against the bare server with the same prompts.

    Every action has exactly --new-tokens tokens, and the server forgets all prompts in between.

    Example: fedse bench rollout my.toml --episodes 32
    """
    config = load_config(experiment)
    if config.engine.type != "vllm":
        raise ConfigError(
            "fedse bench rollout measures a server, and engine.type is 'in-process'",
            hint='set type = "vllm" in the [engine] section',
        )
    seeds = range(seed, seed + repeats)
    results = list(_rollouts(config, seeds, new_tokens, episodes=episodes, turns=turns))
    _print(
        [{"fedse": r.fedse._asdict(), "bare": r.bare._asdict(), "ratio": r.ratio} for r in results],
        json,
    )


@app.command
def train(
    experiment: Experiment,
    /,
    *,
    lessons: Annotated[int, Parameter(help="Episodes of 150 to 500 random tokens.")] = 16,
    repeats: Annotated[int, Parameter(help="How often both are measured, in turns.")] = 2,
    cpu_time: Annotated[bool, Parameter(help="CPU seconds, for a busy machine.")] = False,
    json: Json = False,
) -> None:
    """Tokens per second of a fit, against a bare PEFT loop over the same batches.

    The bare loop is what PEFT's guide shows: whole batches, all logits.

    Example: fedse bench train my.toml --lessons 16
    """
    config = load_config(experiment)
    from fedse.agent.loaded import prepare_torch
    from fedse.train.lora import trainer_for
    from fedse.train.speed import measure_fit, synthetic_lessons

    prepare_torch(config.trainer.threads)
    base, spec = base_path(config.model.base), spec_of(config)
    sizes = {"shortest": 150, "longest": 500, "vocabulary": vocabulary_of(base)}
    speed = measure_fit(
        trainer_for(base, spec, config.trainer),
        initial_adapter(spec, seed=0),
        synthetic_lessons(lessons, **sizes, seed=1),
        settings=config.train.model_copy(update={"epochs": 1}),
        seed=1,
        repeats=repeats,
        clock=time.process_time if cpu_time else time.perf_counter,
    )
    _print_fit(speed, json)


@app.command
def merge(
    *,
    megabytes: Annotated[float, Parameter(help="Size of one adapter.")] = 84.0,
    clients: Annotated[int, Parameter(help="How many are merged.")] = 10,
    json: Json = False,
) -> None:
    """CPU seconds of a server round's merge, against numpy's mean of the same files.

    Ours also checks every adapter and clips it at the median.

    Example: fedse bench merge --megabytes 84 --clients 10
    """
    from fedse.bench.merge import bench_merge

    with tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder:
        result = bench_merge(Path(folder), megabytes=megabytes, clients=clients)
    if json:
        print(json_format.dumps({**result._asdict(), "ratio": result.ratio}))
        return
    print(f"{result.megabytes:.1f} MB x {result.clients} clients")
    print(f"fedse  {result.fedse:.2f} CPU-s\nbare   {result.bare:.2f} CPU-s")
    print(f"ratio  {result.ratio:.2f}")


@app.command(name="round")
def one_round(
    *,
    nodes: Annotated[int, Parameter(help="SuperNodes, each with a site.")] = 5,
    megabytes: Annotated[float, Parameter(help="Size of one adapter, about.")] = 0.24,
    rounds: Annotated[int, Parameter(help="Rounds of a turn that are counted.")] = 3,
    turns: Annotated[int, Parameter(help="How often both are measured, in turns.")] = 1,
    json: Json = False,
) -> None:
    """CPU seconds of a round on a Flower deployment, against a bare app that moves the same bytes.

    Both run on this machine with TLS and node keys. Playing and training are left out of the ratio.

    Example: fedse bench round --nodes 5 --rounds 3
    """
    require_machine("deployment")
    from fedse.bench.round import bench_round, summary

    with tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder:
        result = bench_round(
            Path(folder), nodes=nodes, megabytes=megabytes, rounds=rounds, turns=turns
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


def _rollouts(
    config: Config, seeds: Sequence[int], new_tokens: int, **sizes: int
) -> "Iterator[RolloutBench]":
    from fedse.agent.tokens import load_encoder
    from fedse.bench.rollout import bench_rollout, complete_by_name
    from fedse.engine.client import EngineClient
    from fedse.engine.policy import ServedPolicy
    from fedse.site.acting import acting_adapters

    settings, base = config.engine, base_path(config.model.base)
    adapter = initial_adapter(spec_of(config), seed=0)
    with (
        tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder,
        acting_engine(config, Path(folder) / "logs", silent),
        closing(EngineClient(settings)) as client,
    ):
        acting = acting_adapters(client, settings, base, Path(settings.folder or folder))
        policy = ServedPolicy(
            acting,
            load_encoder(base),
            adapter,
            temperature=1.0,
            context=config.rollout.context,
            new_tokens=new_tokens,
            to_the_end=True,
        )
        name = adapter.digest if settings.adapters == "lora" else next(iter(client.models()))
        complete = complete_by_name(name)
        for seed in seeds:
            # The first call also puts the adapter in, which is no part of the comparison.
            bench_rollout(policy, client.url, complete, episodes=1, turns=1, seed=seed)
            yield bench_rollout(policy, client.url, complete, **sizes, seed=seed)
        acting.take_out()


def _print_fit(speed: "FitSpeed", json: bool) -> None:
    paces = {name: pace._asdict() for name, pace in speed._asdict().items()}
    padding = 1 - speed.fit.tokens / speed.fit.padded
    if json:
        print(json_format.dumps({**paces, "ratio": speed.ratio, "padding": padding}))
        return
    for name, pace in (("fedse", speed.fit), ("bare", speed.bare)):
        print(f"{name:6} {pace.tokens} tokens at {pace.tokens_per_second:.1f} a second")
    print(f"ratio  {speed.ratio:.3f}; {padding:.0%} of what fedse computed was padding")


def _print(results: list[dict[str, Any]], json: bool) -> None:
    if json:
        print(json_format.dumps(results))
        return
    for result in results:
        for name in ("fedse", "bare"):
            pace = result[name]
            speed = pace["generated"] / pace["seconds"]
            print(
                f"{name:6} {pace['generated']} tokens in {pace['seconds']:.1f} s: {speed:.1f} a "
                f"second; this process {pace['cpu_seconds']:.1f} CPU-s"
            )
        print(f"ratio  {result['ratio']:.3f}")
