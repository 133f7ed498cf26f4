"""What does a round cost that teaches a site only what it has mastered?

    python -m research.measure_forgetting docs/results/forgetting.json

The tiny model learns a front desk (research/compare_redaction.py) until it sends every visitor to
the right room. Then it is trained for a few more steps on lessons that all have the same answer,
as a site may have in a night: nothing in them is new. Once AdamW begins anew, as the paper has it,
and once with the moments of the training before (`train.optimizer = "kept"`). All lessons are then
played again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedse.adapters.base import initial_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.loaded import prepare_torch
from fedse.agent.tokens import load_encoder
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.method.rollout import choose_games, demonstrate, rollout
from fedse.stats.paired import paired_difference
from fedse.train.lora import trainer_for
from fedse.types import Adapter
from research.compare_redaction import CONTEXT, NEW_TOKENS, PATH, SPEC, FrontDesk

LESSONS, STEPS, MORE = 150, 1500, 8
LR = 2e-3
LEARNED = TrainSection(lr=LR, batch=16, epochs=STEPS, max_steps=STEPS, optimizer="kept")
ARMS = {
    arm: TrainSection(lr=LR, batch=1, epochs=MORE, max_steps=MORE, optimizer=arm)
    for arm in ("fresh", "kept")
}


def won(adapter: Adapter, seed: int) -> list[bool]:
    """Of each lesson, whether it is still known."""
    engine = engine_for(PATH, SPEC)
    policy = HFPolicy(engine, adapter, temperature=0.0, context=CONTEXT, new_tokens=NEW_TOKENS)
    games = choose_games(FrontDesk().tasks("train"), LESSONS, seed=seed)
    return [one.success for one in rollout(games, FrontDesk, policy, round=1, batch=50, seed=seed)]


def measure(seed: int) -> dict[str, Any]:
    """Wins of all lessons before and after, and how far the adapter went."""
    encoder, trainer = load_encoder(PATH), trainer_for(PATH, SPEC)
    games = choose_games(FrontDesk().tasks("train"), LESSONS, seed=seed)
    lessons = [encoder.tokenized("", one) for one in demonstrate(games, FrontDesk)]
    start = initial_adapter(SPEC, seed=seed)
    first = trainer.fit(start, lessons, settings=LEARNED, context=CONTEXT, seed=seed)
    alike = [one for one in lessons if one.turns[0].action.strip() == "1"]
    found: dict[str, Any] = {"seed": seed, "before": won(first.adapter, seed)}
    for arm, settings in ARMS.items():
        course = Course(moments=settings.moments(lambda: first.moments))
        more = trainer.fit(
            first.adapter, alike, settings=settings, context=CONTEXT, seed=seed, course=course
        )
        moved = np.linalg.norm(more.adapter.vector - first.adapter.vector)
        found[arm] = won(more.adapter, seed)
        found[f"{arm} moved"] = round(float(moved / np.linalg.norm(first.adapter.vector)), 4)
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Wins of all seeds, and the paired difference between the two ways."""
    sums = {name: sum(sum(run[name]) for run in runs) for name in ("before", *ARMS)}
    arms = ([run[arm] for run in runs] for arm in ("kept", "fresh"))
    return {
        **{name: f"{count} of {LESSONS * len(runs)}" for name, count in sums.items()},
        **{f"{arm} moved": [run[f"{arm} moved"] for run in runs] for arm in ARMS},
        "kept minus fresh": paired_difference(*arms, seed=0)._asdict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    args = parser.parse_args()
    prepare_torch(1)
    runs: list[dict[str, Any]] = []
    for seed in args.seeds:
        runs.append(measure(seed))
        found = {"lessons": LESSONS, "steps": MORE, "seeds": args.seeds[: len(runs)]}
        args.result.write_text(json.dumps({**found, **summary(runs)}, indent=1) + "\n")
        print(seed, {arm: sum(runs[-1][arm]) for arm in ("before", *ARMS)}, flush=True)


if __name__ == "__main__":
    main()
