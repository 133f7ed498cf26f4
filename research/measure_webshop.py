"""Where the small model fails in the shop: each kind of action, on products it knows and others.

    python research/measure_webshop.py docs/results/webshop.json

One client alone, `tiny-five`, the options of five-worlds.toml. An adapter is fitted on expert games
of training tasks; then the expert's actions are predicted greedily, each from the expert's own
past, in other training tasks and in test tasks, whose products are others. Beside it: games played.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.loaded import prepare_torch
from fedse.agent.tokens import load_encoder
from fedse.config.schema import TrainSection
from fedse.envs.base import make_env
from fedse.method.rollout import Game, choose_games, demonstrate, rollout
from fedse.stats.rates import Rate
from fedse.train.lora import load_adapter, trainer_for
from fedse.types import Adapter, Split, Trajectory
from fedse_worlds.webshop.env import WebShop

OPTIONS = {"prompt": "short", "option_axes": 0, "page_size": 2, "max_turns": 5}
PATH = base_path("tiny-five")
SPEC = adapter_spec("tiny-five", rank=8, alpha=16, targets=("all-linear",))
CONTEXT, NEW_TOKENS = 1024, 32
SPLITS: tuple[Split, ...] = ("train", "test")


def kind_of(action: str) -> str:
    """What an expert's action is for."""
    verb, _, rest = action.partition("[")
    if verb == "search":
        return "search"
    return "buy" if rest == "Buy Now]" else "turn the page" if rest == "Next >]" else "open"


def predicted(adapter: Adapter, episodes: Sequence[Trajectory]) -> dict[str, dict[str, float]]:
    """By kind of action: how many, the share foretold token for token, nats per token."""
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, adapter)
    right: dict[str, list[bool]] = defaultdict(list)
    nats: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        ids = torch.tensor([episode.token_ids])
        with torch.inference_mode():
            chances = model(input_ids=ids).logits[0].log_softmax(-1)
        end = 0
        for turn in episode.turns:
            start = end + len(turn.context_ids)
            end = start + len(turn.action_ids)
            rows, said = chances[start - 1 : end - 1], ids[0, start:end]
            kind = kind_of(turn.action)
            right[kind].append(bool((rows.argmax(-1) == said).all()))
            nats[kind] += (-rows.gather(1, said[:, None])[:, 0]).tolist()
    return {
        kind: {
            "actions": len(right[kind]),
            "exact": sum(right[kind]) / len(right[kind]),
            "nats": sum(nats[kind]) / len(nats[kind]),
        }
        for kind in sorted(right)
    }


def games_won(adapter: Adapter, options: dict[str, Any], games: Sequence[Game]) -> Rate:
    """Sampled play, as in the tables."""
    policy = HFPolicy(
        engine_for(PATH, SPEC), adapter, temperature=1.0, context=CONTEXT, new_tokens=NEW_TOKENS
    )
    played = rollout(games, lambda: make_env("webshop", options), policy, round=1, batch=50, seed=7)
    return Rate(sum(episode.success for episode in played), len(played))


def measure(copying: bool, demonstrations: int, *, steps: int, seed: int) -> dict[str, Any]:
    """One row: an adapter after `steps` steps on so many games, and what it foretells and wins."""
    options = {**OPTIONS, "copying": copying}
    env, encoder = make_env("webshop", options), load_encoder(PATH)

    def shown(split: str, count: int, seed: int) -> list[Trajectory]:
        games = choose_games(env.tasks(split), count, seed=seed)
        found = demonstrate(games, lambda: make_env("webshop", options))
        return [encoder.tokenized(env.system_prompt, episode) for episode in found]

    lessons = shown("train", demonstrations, seed)
    known = {episode.task for episode in lessons}
    others = [episode for episode in shown("train", 100, seed + 1) if episode.task not in known]
    adapter = initial_adapter(SPEC, seed=seed)
    if steps:
        epochs = -(-steps * 4 // len(lessons))
        settings = TrainSection(lr=2e-3, batch=4, epochs=epochs, max_steps=steps)
        trainer = trainer_for(PATH, SPEC)
        fitted = trainer.fit(adapter, lessons, settings=settings, context=CONTEXT, seed=seed)
        adapter = fitted.adapter
    row: dict[str, Any] = {"copying": copying, "demonstrations": demonstrations, "steps": steps}
    row["longest"] = max(len(episode.token_ids) for episode in others)
    for name, episodes in (("lessons", lessons), ("train", others), ("test", shown("test", 60, 3))):
        row[name] = predicted(adapter, episodes)
    for split in ("train", "test"):
        won = games_won(adapter, options, choose_games(env.tasks(split), 100, seed=11))
        row[f"won {split}"] = [won.successes, won.n, *(round(end, 2) for end in won.interval)]
    return row


def unseen() -> dict[str, Any]:
    """How the wishes of the splits differ, and what players win who look at nothing."""
    shop = WebShop(**{**OPTIONS, "copying": False})
    wishes = {s: {shop._shop.goals[task].query for task in shop.tasks(s)} for s in SPLITS}
    words = {s: {word for wish in wishes[s] for word in wish.split()} for s in SPLITS}
    games = choose_games(shop.tasks("test"), 100, seed=11)
    return {
        "wishes": {split: len(wishes[split]) for split in SPLITS},
        "wishes in both": len(wishes["train"] & wishes["test"]),
        "test words in no training wish": len(words["test"] - words["train"]),
        "always the first": sum(_blind(shop, game, "1") for game in games),
        "always the second": sum(_blind(shop, game, "2") for game in games),
        "random": sum(_random(shop, game) for game in games),
    }


def _blind(shop: WebShop, game: Game, place: str) -> bool:
    shop.reset(game.task, seed=game.seed)
    shop.step("search[wish]")
    shop.step(f"click[{place}]")
    return shop.step("click[Buy Now]").success


def _random(shop: WebShop, game: Game) -> bool:
    step, random = shop.reset(game.task, seed=game.seed), Random(game.seed)
    while not step.done:
        step = shop.step(random.choice(shop.actions()))
    return step.success


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prepare_torch(1)
    rows: list[dict[str, Any]] = [unseen()]
    print(json.dumps(rows[0]), flush=True)
    for copying in (True, False):
        for demonstrations, steps in ((4, 0), (4, 200), (64, 400)):
            rows.append(measure(copying, demonstrations, steps=steps, seed=given.seed))
            print(json.dumps(rows[-1]), flush=True)
    given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
