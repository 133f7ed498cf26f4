"""What a round costs a site whose buffer holds a thousand, 100,000 or a million episodes.

python -m research.measure_buffer docs/results/buffer.json --folder FOLDER

One site plays four games in a maze and takes 80 optimiser steps with the tiny model, each time in a
process of its own. Its buffer is filled with the expert's episodes, each as another task, so no
two are alike. A million of them take 1.6 GB in FOLDER, and are removed. Linux only.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.site.open import open_site
from fedse.types import Trajectory
from research.measure_merge import forget_peak, peak_bytes

CLIENT = "maze"
CONFIG = Config.model_validate(
    {
        "run": {"name": "buffer", "rounds": 1},
        "rollout": {"episodes": 4},
        "buffer": {"demonstrations": 50},
        "train": {"epochs": 1, "batch": 4, "max_steps": 80},
        "eval": {"episodes": 0},
        "clients": [{"name": CLIENT, "env": "maze", "options": {"prompt": "short"}}],
    }
)
AT_ONCE = 10_000
"""Episodes that are added in one transaction."""


class BufferFigures(NamedTuple):
    """One round with a buffer of so many episodes."""

    episodes: int
    buffer_mb: float
    round_cpu_seconds: float
    steps: int
    peak_mb: float
    """Resident memory in the round at its highest, model and libraries included."""


def renamed(episode: Trajectory, number: int) -> Trajectory:
    """The same episode as if played in a task of that number."""
    task = episode.task.model_copy(update={"id": f"{episode.task.id}-{number}"})
    return episode.model_copy(update={"task": task})


def fill(home: Path, episodes: int) -> None:
    """The buffer in `home` holds so many different episodes."""
    site = open_site(CONFIG, CLIENT, home, clock=time.time)
    with closing(site.buffer) as buffer:
        played = list(buffer.lessons(CONFIG.run.name, 0))
        for start in range(len(buffer), episodes, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, episodes))
            added = [renamed(played[number % len(played)], number) for number in numbers]
            buffer.add(added, experiment=CONFIG.run.name)


def measure(home: Path, episodes: int) -> BufferFigures:
    """The figures of the first round of the site whose buffer is in `home`."""
    site = open_site(CONFIG, CLIENT, home, clock=time.time)
    with closing(site.buffer):
        start = initial_adapter(site.spec, seed=0)
        forget_peak()
        began = time.process_time()
        update = client_round(start, site, CONFIG, round=1, emit=silent)
        spent = time.process_time() - began
    assert update.stats.buffered >= episodes
    return BufferFigures(
        episodes=episodes,
        buffer_mb=round((home / "buffer.db").stat().st_size / 1e6, 1),
        round_cpu_seconds=round(spent, 1),
        steps=update.stats.steps,
        peak_mb=round(peak_bytes() / 1e6),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--episodes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="where the buffers are while it runs")
    args = parser.parse_args()
    found = []
    spawn = multiprocessing.get_context("spawn")
    for episodes in args.episodes:
        with (
            tempfile.TemporaryDirectory(dir=args.folder) as home,
            spawn.Pool(1, maxtasksperchild=1) as pool,
        ):
            pool.apply(fill, (Path(home), episodes))
            figures = pool.apply(measure, (Path(home), episodes))
        print(figures, file=sys.stderr, flush=True)
        found.append(figures._asdict())
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
