"""The whole method on one page: python examples/one_page.py

Three organisations with mazes of their own improve one small agent in three rounds, in half a
minute on a laptop. `fedse.run` gives the same adapter bit for bit; it adds commits, resuming,
statistics, other engines and a federation that outlives its failures.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import fedse
from fedse.adapters.base import initial_adapter
from fedse.course import Course
from fedse.events import silent
from fedse.method.evaluate import client_eval
from fedse.method.rollout import choose_games, rollout
from fedse.method.site import Site
from fedse.site.open import open_site

SETTINGS = {
    "run.rounds": 3,
    "run.workers": 1,
    "rollout.episodes": 24,
    "rollout.max_turns": 12,
    "buffer.demonstrations": 32,
    "aggregate.clip": "none",  # the paper's plain mean
    "eval.episodes": 20,
}


def experiment() -> fedse.Config:
    """The demo's three maze clients under the settings above."""
    config = fedse.load_experiment("demo", settings=SETTINGS).config
    return config.model_copy(update={"clients": config.clients[:3]})


def local_round(
    current: fedse.Adapter, site: Site, config: fedse.Config, round: int
) -> fedse.Adapter:
    """What one organisation does in a round; nothing but the adapter leaves it."""
    name, seed = config.run.name, fedse.seed_of(config.run.seed, site.client, round)
    # 1 reset to the global adapter, 2 explore
    policy = site.make_policy(current, config.rollout.temperature)
    games = choose_games(site.tasks("train"), config.rollout.episodes, seed=seed)
    played = rollout(
        games,
        site.make_env,
        policy,
        round=round,
        batch=config.rollout.batch,
        max_turns=config.rollout.max_turns,
        seed=seed,
    )
    # 3 keep the episodes that succeeded, 4 add them to everything that succeeded before
    site.buffer.add([episode for episode in played if episode.success], experiment=name)
    lessons = list(site.buffer.lessons(name, round))
    # 5 fine-tune on the agent's own tokens
    return site.fit(current, lessons, config.train, seed, Course()).adapter


def mean(adapters: list[fedse.Adapter]) -> fedse.Adapter:
    """6 the server's unweighted mean."""
    vector = np.mean([adapter.vector for adapter in adapters], axis=0, dtype=np.float64)
    return fedse.Adapter(adapters[0].spec, vector.astype(np.float32))


def success(adapter: fedse.Adapter, sites: list[Site], config: fedse.Config) -> fedse.Rate:
    """Held-out games that succeeded, over all organisations."""
    stats = [client_eval(adapter, s, config, round=0, emit=silent) for s in sites]
    won, played = sum(s.eval_succeeded for s in stats), sum(s.eval_played for s in stats)
    return fedse.Rate(won, played)


def main() -> fedse.Adapter:
    config = experiment()
    with TemporaryDirectory() as home:
        names = sorted(client.name for client in config.clients)
        sites = [open_site(config, n, Path(home) / n, clock=time.time) for n in names]
        adapter = initial_adapter(sites[0].spec, seed=config.run.seed)
        before = success(adapter, sites, config)
        for round in range(1, config.run.rounds + 1):
            adapter = mean([local_round(adapter, site, config, round) for site in sites])
            print(f"round {round}: adapter {adapter.digest[:12]}")
        after = success(adapter, sites, config)
    for when, rate in (("before", before), ("after", after)):
        low, high = rate.interval
        print(f"{when:<6} {rate.value:.2f} ({low:.2f} to {high:.2f}) of {rate.n} held-out games")
    return adapter


if __name__ == "__main__":
    main()
