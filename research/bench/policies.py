"""A policy as the experiment sets it up, and what is shown of its pace."""

import json as json_format
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.site.acting import engine_of
from fedse.types import Adapter

if TYPE_CHECKING:
    from fedse.engine.client import EngineClient
    from fedse.engine.policy import ServedPolicy
    from research.bench.pace import RolloutBench


@contextmanager
def served_policy(
    config: Config, adapter: Adapter, *, new_tokens: int
) -> "Iterator[tuple[ServedPolicy, EngineClient]]":
    """A policy whose actions all have `new_tokens` tokens, and the client of its server."""
    from fedse.agent.tokens import load_encoder
    from fedse.engine.client import EngineClient
    from fedse.engine.policy import ServedPolicy
    from fedse.engine.ways_in import acting_adapters

    settings, base = config.engine, base_path(config.model.base)
    with (
        tempfile.TemporaryDirectory(prefix="fedse-bench-") as folder,
        engine_of(config).ready(Path(folder) / "logs"),
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
        yield policy, client
        acting.take_out()


def served_rollouts(
    config: Config, seeds: Sequence[int], new_tokens: int, **sizes: int
) -> "Iterator[RolloutBench]":
    """One per seed: through fedse, and with the bare server."""
    from research.bench.rollout import bench_rollout, complete_by_name

    adapter = initial_adapter(spec_of(config), seed=0)
    with served_policy(config, adapter, new_tokens=new_tokens) as (policy, client):
        by_name = config.engine.adapters == "lora"
        complete = complete_by_name(adapter.digest if by_name else next(iter(client.models())))
        for seed in seeds:
            # The first call also loads the adapter, which is not part of the comparison.
            bench_rollout(policy, client.url, complete, episodes=1, turns=1, seed=seed)
            yield bench_rollout(policy, client.url, complete, **sizes, seed=seed)


def in_process_rollouts(
    config: Config, seeds: Sequence[int], new_tokens: int, **sizes: int
) -> "Iterator[RolloutBench]":
    """One per seed: through fedse, in this process."""
    from fedse.agent.hf import HFPolicy, engine_for
    from fedse.agent.loaded import prepare_torch
    from research.bench.generate import bench_lock_step

    prepare_torch(config.trainer.threads)
    spec, place = spec_of(config), config.trainer
    base = base_path(config.model.base)
    policy = HFPolicy(
        engine_for(base, spec, device=place.device, precision=place.precision),
        initial_adapter(spec, seed=0),
        temperature=1.0,
        context=config.rollout.context,
        new_tokens=new_tokens,
        to_the_end=True,
    )
    for seed in seeds:
        # The first call also merges the adapter, which is not part of the comparison.
        bench_lock_step(policy, episodes=1, turns=1, seed=seed)
        yield bench_lock_step(policy, **sizes, seed=seed)


def require_plain_weights(config: Config) -> None:
    """An adapter can be merged into the weights that [trainer] asks for."""
    if config.trainer.precision == "4bit":
        raise ConfigError(
            "rollout --generate merges an adapter, and trainer.precision is '4bit'",
            hint='set precision = "bfloat16" in the [trainer] section',
        )


def with_generate(
    config: Config, results: "Sequence[RolloutBench]", seeds: Sequence[int]
) -> "list[RolloutBench]":
    """The results, each with the pace of transformers' generate() on its episodes."""
    from fedse.agent.loaded import load_base, prepare_torch
    from research.bench.generate import beside_generate

    place = config.trainer
    prepare_torch(place.threads)
    base = load_base(base_path(config.model.base), device=place.device, precision=place.precision)
    base.merge(initial_adapter(spec_of(config), seed=0))
    return [
        beside_generate(result, base.model, seed=seed)
        for result, seed in zip(results, seeds, strict=True)
    ]


def print_rollouts(results: "Sequence[RolloutBench]", json: bool) -> None:
    """Every speed and every ratio is on the screen."""
    named = [({"fedse": result.fedse, **result.others}, result.ratios) for result in results]
    if json:
        told = [
            {**{name: pace._asdict() for name, pace in paces.items()}, "ratios": ratios}
            for paces, ratios in named
        ]
        print(json_format.dumps(told))
        return
    for paces, ratios in named:
        for name, pace in paces.items():
            print(
                f"{name:8} {pace.generated} tokens in {pace.seconds:.1f} s: "
                f"{pace.tokens_per_second:.1f} a second; this process {pace.cpu_seconds:.1f} CPU-s"
            )
        for name, ratio in ratios.items():
            print(f"ratio    {ratio:.3f} fedse / {name}")
