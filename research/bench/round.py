"""A round of ours on Flower, against a bare Flower app that moves the same bytes.

Both run on the loopback address with the same number of nodes, in turns, each turn in a deployment
of its own, with TLS and node keys, or in a simulation of its own. Ours is that of `fedse run
--engine deployment` or `simulation`. The bare one is made of Flower's own programs and the app in
bare_app.py.

A round is counted from the end of one round to the end of the next, so that starting anything is
no part of it: the first round of each turn only warms up, and one round more is begun than is
counted, so that ending is no part of it either. What a node still does after its answer was read
falls into the next round, in both. Counted are the CPU seconds of all processes: the SuperLink, the
SuperNodes or Ray, the SuperExecs, the processes of the apps, and the command that submitted the app
and follows its log. Those of the site workers, who play and train, are kept
apart: a bare app has none. In a simulation its virtual nodes wait about as long as ours work.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from fedse.adapters.base import spec_of
from fedse.config.schema import Config
from fedse.events import read_events
from fedse.flower.ops.deployment import deployed
from fedse.flower.ops.simulation import simulated, simulation_options
from fedse.flower.ops.superlink import START_SECONDS, submit_command
from fedse.processes.cpu_time import cpu_seconds
from fedse.processes.group import Processes
from fedse.store.run_folder import create_run
from research.bench.bare_flower import bare_deployment, bare_simulation, submit_bare

SITES = "worker"
"""What the names of the processes begin with that play and train."""
# This only ends what hangs: a SuperNode of Flower's own can stop working and stay.
ROUND_SECONDS = 180.0


class RoundCost(NamedTuple):
    """One round, in seconds."""

    flower: float
    """CPU of the deployment, without the site workers."""
    sites: float
    """CPU of the site workers."""
    wall: float
    parts: dict[str, float]
    """CPU by what was started: `node` is all SuperNodes and what runs below them, `superexec` the
    server's app, `run` the command that submitted it."""


class RoundBench(NamedTuple):
    """The same bytes to the same number of nodes, moved by both in turns."""

    nodes: int
    adapter_bytes: int
    fedse: tuple[RoundCost, ...]
    bare: tuple[RoundCost, ...]

    @property
    def ratio(self) -> float:
        """CPU seconds of our deployment as a multiple of the bare one's, site workers left out."""
        return mean_flower(self.fedse) / mean_flower(self.bare)


class BareRounds(NamedTuple):
    """What the bare app is told."""

    nodes: int
    rounds: int
    numbers: int
    """Of four bytes each, in the array that is moved."""
    seconds: float = 0.0
    """How long a node waits before it answers."""


class Reading(NamedTuple):
    """The CPU seconds used so far, by kind of process, at a time."""

    at: float
    parts: dict[str, float]


def bench_round(
    folder: Path, *, nodes: int, megabytes: float, rounds: int, turns: int, simulation: bool = False
) -> RoundBench:
    """Both were measured `turns` times for `rounds` rounds each; what they wrote is in `folder`."""
    config = smallest_experiment(nodes=nodes, megabytes=megabytes, rounds=rounds + 2)
    size, ours, bare = spec_of(config).nbytes, list[RoundCost](), list[RoundCost]()
    for turn in range(turns):
        place = folder / f"fedse-{turn}"
        ours += fedse_turn(place, config, rounds=rounds, simulation=simulation)
        counts = BareRounds(nodes, rounds + 2, size // 4, pause(ours, nodes) if simulation else 0)
        bare += bare_turn(folder / f"bare-{turn}", counts, simulation=simulation)
    return RoundBench(nodes, size, tuple(ours), tuple(bare))


def pause(rounds: Sequence[RoundCost], nodes: int) -> float:
    """How long each virtual node waits, one per core at a time, for rounds as long as these."""
    # Ray uses the cores also while it waits, which is not the doing of whoever it waits for.
    return fmean(cost.wall for cost in rounds) * min(os.cpu_count() or 1, nodes) / nodes


def smallest_experiment(*, nodes: int, megabytes: float, rounds: int) -> Config:
    """The tiny model with an adapter of about that size, and as little to play as there can be."""
    clients = [{"name": f"site-{number:03d}", "env": "maze"} for number in range(nodes)]
    sections = {
        "run": {"name": "bench-round", "rounds": rounds},
        "rollout": {"episodes": 1, "max_turns": 1, "new_tokens": 1},
        "buffer": {"demonstrations": 1, "history": "demonstrations"},
        "train": {"epochs": 1, "batch": 1, "max_steps": 1},
        "eval": {"episodes": 0},
        "clients": clients,
    }
    one, two = (
        spec_of(Config.model_validate({**sections, "model": {"rank": rank}})).nbytes
        for rank in (1, 2)
    )
    rank = max(1, round((megabytes * 1e6 - one) / (two - one)) + 1)
    return Config.model_validate({**sections, "model": {"rank": rank}})


def fedse_turn(folder: Path, config: Config, *, rounds: int, simulation: bool) -> list[RoundCost]:
    """What `rounds` rounds of ours cost, after the first."""
    create_run(folder, config, name="run").close()
    events, begin = folder / "run" / "events.jsonl", _simulation if simulation else _deployment
    with begin(folder) as (processes, submission):
        processes.start("run", submission)
        return costs(
            processes,
            lambda: sum(1 for _ in read_events(events, ['"round.committed"'])),
            rounds=rounds,
        )


@contextmanager
def _deployment(folder: Path) -> Iterator[tuple[Processes, list[str]]]:
    with deployed(folder / "run", folder / "flower") as ready:
        submission = submit_command(ready.folder, {"run-dir": str(ready.run_dir)})
        yield ready.processes, [*submission, "--stream"]


@contextmanager
def _simulation(folder: Path) -> Iterator[tuple[Processes, list[str]]]:
    with simulated(folder / "run", folder / "flower") as ready:
        submission = submit_command(ready.folder, ready.settings)
        options = simulation_options(len(ready.config.clients))
        yield ready.processes, [*submission, "--stream", *options]


def bare_turn(folder: Path, counts: BareRounds, *, simulation: bool) -> list[RoundCost]:
    """What all rounds of the bare app but the first and the last cost."""
    marks, nodes = folder / "marks", counts.nodes
    with bare_simulation(folder) if simulation else bare_deployment(folder, nodes) as processes:
        settings: dict[str, str | float] = {**counts._asdict(), "marks": str(marks)}
        options = simulation_options(nodes) if simulation else []
        processes.start("run", submit_bare(folder, settings, options))
        return costs(
            processes,
            lambda: len(marks.read_text().splitlines()) if marks.exists() else 0,
            rounds=counts.rounds - 2,
        )


def costs(processes: Processes, ended: Callable[[], int], *, rounds: int) -> list[RoundCost]:
    """Of the rounds after the first; `ended` counts the rounds that have ended so far."""
    readings: list[Reading] = []
    for number in range(1, rounds + 2):
        limit = ROUND_SECONDS if readings else START_SECONDS + ROUND_SECONDS
        processes.wait_for(f"round {number}", partial(_reached, ended, number), seconds=limit)
        readings.append(Reading(time.monotonic(), used_so_far(processes)))
    return [_between(*pair) for pair in pairwise(readings)]


def used_so_far(processes: Processes) -> dict[str, float]:
    """CPU seconds by kind of process: the name up to the first hyphen."""
    used: defaultdict[str, float] = defaultdict(float)
    for name, process, _ in processes.running:
        used[name.partition("-")[0]] += cpu_seconds(process.pid)
    return dict(used)


def summary(bench: RoundBench) -> dict[str, Any]:
    """The means of both, every round, and the ratio, ready for JSON."""
    return {
        "nodes": bench.nodes,
        "megabytes": bench.adapter_bytes / 1e6,
        "fedse": _means(bench.fedse),
        "bare": _means(bench.bare),
        "ratio": bench.ratio,
        "ratios": [a.flower / b.flower for a, b in zip(bench.fedse, bench.bare, strict=True)],
    }


def _means(rounds: Sequence[RoundCost]) -> dict[str, Any]:
    columns = {
        name: fmean(getattr(r, name) for r in rounds) for name in ("flower", "sites", "wall")
    }
    parts = {kind: fmean(r.parts[kind] for r in rounds) for kind in rounds[0].parts}
    return {**columns, "parts": parts, "rounds": [r._asdict() for r in rounds]}


def mean_flower(rounds: Sequence[RoundCost]) -> float:
    """CPU seconds of a round without the site workers."""
    return fmean(cost.flower for cost in rounds)


def _reached(ended: Callable[[], int], number: int) -> bool:
    return ended() >= number


def _between(before: Reading, after: Reading) -> RoundCost:
    parts = {kind: used - before.parts.get(kind, 0.0) for kind, used in after.parts.items()}
    sites = parts.pop(SITES, 0.0)
    return RoundCost(sum(parts.values()), sites, after.at - before.at, parts)
