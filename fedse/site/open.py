"""Build what a client owns from the experiment's config and the client's own folder."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fedse.base_model import adapter_spec, base_path
from fedse.buffer import Buffer
from fedse.config import Config
from fedse.envs.base import make_env
from fedse.parties import Fitted, Site
from fedse.rollout import choose_games, demonstrate
from fedse.seeds import seed_of
from fedse.types import Adapter, AdapterSpec, Trajectory


def spec_of(config: Config) -> AdapterSpec:
    """The adapter spec this experiment's model section implies."""
    model = config.model
    return adapter_spec(model.base, rank=model.rank, alpha=model.alpha, targets=model.targets)


def open_site(config: Config, client: str, home: Path, *, clock: Callable[[], float]) -> Site:
    """The client's site, its buffer in `home`, filled with the expert's demonstrations."""
    # Heavy and optional, so imported only where a model is really needed.
    from fedse.agent.hf import HFPolicy, engine_for
    from fedse.train.base import prepare_torch
    from fedse.train.lora import trainer_for

    member = config.client(client)
    make = partial(make_env, member.env, member.options)
    system, path, spec = make().system_prompt, base_path(config.model.base), spec_of(config)
    prepare_torch(config.model.threads)
    engine, trainer = engine_for(path, spec), trainer_for(path, spec)

    def make_policy(adapter: Adapter, temperature: float) -> HFPolicy:
        return HFPolicy(
            engine,
            adapter,
            temperature=temperature,
            context=config.rollout.context,
            new_tokens=config.rollout.new_tokens,
        )

    def fit(start: Adapter, lessons: Sequence[Trajectory], seed: int) -> Fitted:
        return trainer.fit(
            start,
            lessons,
            system=system,
            settings=config.train,
            context=config.rollout.context,
            seed=seed,
        )

    site = Site(client, spec, make, Buffer(home / "buffer.db"), make_policy, fit, clock)
    add_demonstrations(site, config)
    return site


def add_demonstrations(site: Site, config: Config) -> None:
    """The buffer holds D_train(0): the scripted expert's successes, always the same ones."""
    count, experiment = config.buffer.demonstrations, config.run.name
    if count and not site.buffer.added(experiment, 0):
        seed = seed_of(config.run.seed, site.client, "demonstrations")
        games = choose_games(site.make_env().tasks("train"), count, seed=seed)
        site.buffer.add(demonstrate(games, site.make_env), experiment=experiment)
