"""Padding and CPU seconds of one fit, with shuffled batches and with batches by length.

python -m research.measure_batches

Two epochs on 40 maze demonstrations with the `tiny` base and one thread, five seeds, both kinds in
turns; median, lowest and highest. docs/how-to/training.md has the figures.
"""

import time
from functools import partial
from statistics import median
from typing import Literal, NamedTuple

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import load_base, prepare_torch
from fedse.config.training import TrainSection
from fedse.envs.base import make_env
from fedse.method.rollout import choose_games, demonstrate
from fedse.train.lora import Trainer, trainer_for
from fedse.types import Trajectory

Kind = Literal["shuffled", "by-length"]
KINDS: tuple[Kind, ...] = ("shuffled", "by-length")
SEEDS = range(1, 6)
CONTEXT = 1024


class Cost(NamedTuple):
    padding: float
    """Share of the computed tokens."""
    seconds: float
    """Of CPU time."""


def demonstrations(trainer: Trainer, count: int) -> list[Trajectory]:
    """Episodes of the maze's expert as tokens of the trainer's base model."""
    maze = partial(make_env, "maze", {"prompt": "short"})
    games = choose_games(maze().tasks("train"), count, seed=1)
    encoder = load_base(trainer.path).encoder
    return [encoder.tokenized(maze().system_prompt, one) for one in demonstrate(games, maze)]


def cost_of(trainer: Trainer, lessons: list[Trajectory], settings: TrainSection, seed: int) -> Cost:
    """What one fit from a fresh adapter takes."""
    start, begun = initial_adapter(trainer.spec, seed=0), time.process_time()
    fitted = trainer.fit(start, lessons, settings=settings, context=CONTEXT, seed=seed)
    return Cost(1 - fitted.tokens / fitted.padded, time.process_time() - begun)


def main() -> None:
    prepare_torch(1)
    spec = adapter_spec("tiny", rank=8, alpha=16, targets=("all-linear",))
    trainer = trainer_for(base_path("tiny"), spec)
    lessons = demonstrations(trainer, 40)
    cost_of(trainer, lessons, TrainSection(steps=1), 1)  # what is loaded once is not counted
    for batch in (4, 8):
        found: dict[Kind, list[Cost]] = {kind: [] for kind in KINDS}
        for seed in SEEDS:
            for kind in KINDS:
                settings = TrainSection(lr=2e-3, batch=batch, batches=kind)
                found[kind].append(cost_of(trainer, lessons, settings, seed))
        for kind, costs in found.items():
            told = [
                f"{median(v):.3f} ({min(v):.3f}-{max(v):.3f})" for v in zip(*costs, strict=True)
            ]
            print(f"batch {batch}  {kind:9}  padding {told[0]}  CPU seconds {told[1]}", flush=True)


if __name__ == "__main__":
    main()
