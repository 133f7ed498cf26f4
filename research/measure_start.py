"""Where everybody starts: success of chance, of a tiny base model and of the expert.

    python research/measure_start.py docs/results/start.json --episodes 400
    python research/measure_start.py docs/results/start-five.json --base tiny-five --episodes 200

Held-out tasks, one row per environment setting; a row has counts, from which rates and Wilson
intervals follow, and the steps per CPU-second of a random player. The table is Markdown.
"""

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.loaded import prepare_torch
from fedse.envs.base import EnvFactory, ExpertEnv, make_env
from fedse.method.rollout import choose_games, rollout, scripted_episode
from fedse.seeds import seed_of
from fedse.stats.rates import Rate

Setting = tuple[str, dict[str, object]]
SHORT: dict[str, object] = {"prompt": "short"}
# Per base model, the settings it was made for.
SETTINGS: dict[str, Sequence[Setting]] = {
    "tiny": (
        ("maze", {}),
        ("maze", {"max_distance": 6}),
        ("wordle", {"words": "small"}),
        ("wordle", {"words": "medium"}),
    ),
    "tiny-five": (
        ("babyai", {"levels": "easy", "max_turns": 8}),
        ("babyai", {"levels": "one_room", "max_turns": 20}),
        ("maze", {}),
        ("maze", {"max_distance": 6}),
        ("textcraft", {"depths": [1], "distractors": 3, "max_turns": 10}),
        ("textcraft", {"depths": [1, 2], "distractors": 3, "max_turns": 10}),
        ("textcraft", {"depths": [1, 2, 3, 4], "distractors": 10}),
        ("webshop", {"option_axes": 0}),
        ("webshop", {"option_axes": 1}),
        ("webshop", {"option_axes": 2, "products": 1000}),
        ("wordle", {"words": "small"}),
        ("wordle", {"words": "medium"}),
        ("wordle", {"words": "full"}),
    ),
}


class Played(NamedTuple):
    wins: int
    steps_per_second: float


def scripted(make: EnvFactory, count: int, *, expert: bool) -> Played:
    """How many held-out games a player without a model wins, and how fast the world answers."""
    env = make()
    assert isinstance(env, ExpertEnv)
    random = Random(seed_of("start", env.name))

    def choose(world: ExpertEnv) -> str:
        return world.expert() if expert else random.choice(world.actions())

    games = choose_games(env.tasks("test"), count, seed=1)
    started = time.process_time()
    episodes = [scripted_episode(game, env, choose, name="x") for game in games]
    steps = sum(len(episode.turns) for episode in episodes)
    seconds = time.process_time() - started
    return Played(sum(episode.success for episode in episodes), steps / seconds)


def played(make: EnvFactory, count: int, base: str, *, temperature: float) -> int:
    """How many held-out games the untrained adapter on the base model wins."""
    spec = adapter_spec(base, rank=8, alpha=16, targets=("all-linear",))
    engine, start = engine_for(base_path(base), spec), initial_adapter(spec, seed=0)
    policy = HFPolicy(engine, start, temperature=temperature, context=1024, new_tokens=32)
    games = choose_games(make().tasks("test"), count, seed=1)
    episodes = rollout(games, make, policy, round=0, batch=100, seed=1)
    return sum(episode.success for episode in episodes)


def measured(name: str, options: dict[str, object], base: str, count: int) -> dict[str, object]:
    make = partial(make_env, name, SHORT | options)
    chance = scripted(make, count, expert=False)
    wins = {
        "chance": chance.wins,
        "sampled": played(make, count, base, temperature=1.0),
        "greedy": played(make, count, base, temperature=0.0),
        "expert": scripted(make, count, expert=True).wins,
    }
    rates = [Rate(won, count) for won in wins.values()]
    cells = [f"{r.value:.2f} ({r.interval.low:.2f}-{r.interval.high:.2f})" for r in rates]
    about = ", ".join(f"{key} {value}" for key, value in options.items())
    print(f"| {name} {about} | {' | '.join(cells)} | {chance.steps_per_second:.0f} |", flush=True)
    steps = round(chance.steps_per_second)
    return {"env": name, "options": options, "episodes": count, "wins": wins, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", choices=list(SETTINGS), default="tiny")
    parser.add_argument("--episodes", type=int, default=400)
    args = parser.parse_args()
    prepare_torch(1)
    print("| world | chance | base, sampled | base, greedy | expert | steps/CPU-s |")
    print("|---|---|---|---|---|---|")
    rows = [
        measured(name, options, args.base, args.episodes) for name, options in SETTINGS[args.base]
    ]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
