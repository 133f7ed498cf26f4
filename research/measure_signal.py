"""How long the gradients of lessons are, how much they agree, and how much noise an update bears.

    python -m research.measure_signal docs/results/signal.json

Choose `privacy.clip` and the `--signal` of `fedse privacy plan` by this on lessons that are public:
what is chosen by private lessons tells about them, and no accountant counts it. Printed are the
norms of single gradients at the start, for each clip the length of the mean of the shortened
gradients in units of the clip, and the loss on games of the same world that nobody learned from,
after noise was added to the mean of five sites' updates: R is the length of the update over that of
the noise.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedse.agent.loaded import prepare_torch
from fedse.config.file import load_config
from fedse.seeds import seed_of
from fedse.train.batch import lesson_of
from fedse.train.lora import load_adapter
from fedse.train.unit_gradients import TOGETHER, shortened, unit_gradients
from fedse.types import Adapter, Trajectory
from research.leakage_table import ARMS, CONFIG, SITES
from research.measure_leakage import World

CLIPS = (0.05, 0.1, 0.2, 0.4, 1.0, 2.0)
RATIOS = (2.0, 1.0, 0.5, 0.25, 0.125)
PLAIN = ARMS["actions"]


def gradients(world: World, adapter: Adapter, lessons: Sequence[Trajectory]) -> tuple[Any, float]:
    """One row per lesson, and the mean of their losses."""
    model = world.trainer.model()
    load_adapter(model, adapter)
    units = [[lesson_of(world.tokenized(PLAIN, x), context=world.context)] for x in lessons]
    parts, total = [], 0.0
    for start in range(0, len(units), TOGETHER):
        rows, loss = unit_gradients(model, units[start : start + TOGETHER], world.trainer.place)
        parts.append(rows)
        total += loss
    return torch.cat(parts), total / len(units)


def signals(rows_U_P: Any) -> dict[str, float]:
    """By clip: the length of the mean of the shortened gradients, in units of the clip."""
    means = {clip: shortened(rows_U_P, clip).mean(dim=0).norm() for clip in CLIPS}
    return {f"{clip:g}": round(float(mean) / clip, 4) for clip, mean in means.items()}


def borne(world: World, merged: Adapter, held_out: Sequence[Trajectory]) -> dict[str, float]:
    """The loss after so much noise was added, by R; `before` and `inf` are without."""
    update = merged.vector.astype(np.float64) - world.start.vector
    moved = np.flatnonzero(update)
    normal = np.random.default_rng(seed_of(world.seed, "noise")).normal(size=len(moved))
    made = {"before": world.start.vector, "inf": merged.vector}
    for ratio in RATIOS:
        noisy = merged.vector.astype(np.float64)
        noisy[moved] += normal * (np.linalg.norm(update) / np.linalg.norm(normal) / ratio)
        made[f"{ratio:g}"] = noisy.astype(np.float32)
    adapters = {name: Adapter(world.spec, vector) for name, vector in made.items()}
    return {name: round(gradients(world, one, held_out)[1], 4) for name, one in adapters.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--client", default="textcraft")
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    prepare_torch(1)
    world = World(load_config(given.config), given.client, given.lessons, seed=given.seed)
    rows, _ = gradients(world, world.start, world.pool(0))
    norms = rows.norm(dim=1)
    least, middle, most = (float(norms.quantile(q)) for q in (0.0, 0.5, 1.0))
    merged = world.mean(world.replies(PLAIN, lambda lesson: lesson, range(SITES)))
    found = {
        "settings": {"client": given.client, "lessons": given.lessons, "seed": given.seed},
        "numbers": {"all": world.spec.size, "moved": int((rows != 0).any(dim=0).sum())},
        "norms": {"least": least, "median": middle, "most": most},
        "signal": signals(rows),
        "loss": borne(world, merged, world.pool(SITES)),
    }
    given.out.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
