"""Where everybody starts: success of chance, of the tiny base model and of the expert.

    python scripts/measure_start.py docs/results/start.json --episodes 400

Held-out tasks, one row per environment setting; a row has counts, from which rates and Wilson
intervals follow. The table is printed as Markdown.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from random import Random

from fedse.agent.hf import HFPolicy, engine_for
from fedse.base_model import adapter_spec, base_path, initial_adapter
from fedse.envs.base import EnvFactory, ExpertEnv, make_env
from fedse.evaluate import Rate
from fedse.rollout import choose_games, rollout, scripted_episode
from fedse.seeds import seed_of
from fedse.train.base import prepare_torch

SETTINGS = (
    ("maze", {"prompt": "short"}),
    ("maze", {"prompt": "short", "max_distance": 6}),
    ("wordle", {"prompt": "short", "words": "small"}),
    ("wordle", {"prompt": "short", "words": "medium"}),
)


def scripted(make: EnvFactory, count: int, *, expert: bool) -> int:
    """How many held-out games a player without a model wins."""
    env = make()
    assert isinstance(env, ExpertEnv)
    random = Random(seed_of("start", env.name))

    def choose(world: ExpertEnv) -> str:
        return world.expert() if expert else random.choice(world.actions())

    games = choose_games(env.tasks("test"), count, seed=1)
    return sum(scripted_episode(game, env, choose, name="x").success for game in games)


def played(make: EnvFactory, count: int, *, temperature: float) -> int:
    """How many held-out games the untrained adapter on the tiny base wins."""
    spec = adapter_spec("tiny", rank=8, alpha=16, targets=("all-linear",))
    engine, start = engine_for(base_path("tiny"), spec), initial_adapter(spec, seed=0)
    policy = HFPolicy(engine, start, temperature=temperature, context=512, new_tokens=12)
    games = choose_games(make().tasks("test"), count, seed=1)
    episodes = rollout(games, make, policy, round=0, batch=100, seed=1)
    return sum(episode.success for episode in episodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--episodes", type=int, default=400)
    args = parser.parse_args()
    prepare_torch(1)
    rows = []
    print("| world | chance | tiny, sampled | tiny, greedy | expert |\n|---|---|---|---|---|")
    for name, options in SETTINGS:
        make = partial(make_env, name, options)
        wins = {
            "chance": scripted(make, args.episodes, expert=False),
            "sampled": played(make, args.episodes, temperature=1.0),
            "greedy": played(make, args.episodes, temperature=0.0),
            "expert": scripted(make, args.episodes, expert=True),
        }
        rows.append({"env": name, "options": options, "episodes": args.episodes, "wins": wins})
        rates = [Rate(won, args.episodes) for won in wins.values()]
        cells = [f"{r.value:.2f} ({r.interval.low:.2f}-{r.interval.high:.2f})" for r in rates]
        about = " ".join(str(value) for key, value in options.items() if key != "prompt")
        print(f"| {name} {about} | {' | '.join(cells)} |", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
