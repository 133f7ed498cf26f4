"""`fedse bench`: what fedse costs beside the bare tools, as ratios measured in one run."""

import json as json_format
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.api.engines import acting_engine
from fedse.cli.display import Json
from fedse.config.file import load_config
from fedse.errors import ConfigError
from fedse.events import silent

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
    from fedse.agent.tokens import load_encoder
    from fedse.bench.rollout import bench_rollout, complete_by_name
    from fedse.engine.client import EngineClient
    from fedse.engine.policy import ServedPolicy
    from fedse.site.acting import acting_adapters

    base, adapter = base_path(config.model.base), initial_adapter(spec_of(config), seed=seed)
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder,
        acting_engine(config, Path(folder) / "logs", silent),
        closing(EngineClient(config.engine)) as client,
    ):
        place = Path(config.engine.folder or folder)
        acting = acting_adapters(client, config.engine, base, place)
        policy = ServedPolicy(
            acting,
            load_encoder(base),
            adapter,
            temperature=1.0,
            context=config.rollout.context,
            new_tokens=new_tokens,
            to_the_end=True,
        )
        lora = config.engine.adapters == "lora"
        complete = complete_by_name(adapter.digest if lora else next(iter(client.models())))
        sizes = {"episodes": episodes, "turns": turns}
        for repeat in range(repeats):
            # The first call also puts the adapter in, which is no part of the comparison.
            bench_rollout(policy, client.url, complete, episodes=1, turns=1, seed=repeat)
            results.append(bench_rollout(policy, client.url, complete, **sizes, seed=repeat))
        acting.take_out()
    _print(
        [{"fedse": r.fedse._asdict(), "bare": r.bare._asdict(), "ratio": r.ratio} for r in results],
        json,
    )


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
