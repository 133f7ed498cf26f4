"""What it would cost to load the model for every message, instead of keeping a worker resident.

    python research/measure_reload.py docs/results/reload.json --base tiny
    python research/measure_reload.py docs/results/reload.json --base tiny --base FOLDER

A real site worker is started again and again. Measured of each, in wall and in CPU seconds of its
process: from its start until it is ready (imports, model), a round with the model loaded (some
games, half as many held-out ones and as many optimiser steps), and the same request once more,
which the outbox answers. A row has the median, the lowest and the highest of the repeats. The
table is Markdown.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from fedse.adapters.base import initial_adapter, spec_of
from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.protocol import Question
from fedse.site.socket_client import ask_site
from fedse.types import Adapter

PATIENCE = 1800.0
"""Seconds a round may take."""


class Spent(NamedTuple):
    wall: float
    cpu: float


class Worker(NamedTuple):
    process: "subprocess.Popen[str]"
    socket: Path


def config_for(base: str, episodes: int) -> Config:
    return Config.model_validate(
        {
            "run": {"name": "reload", "rounds": 1},
            "model": {"base": base, "threads": 1},
            "rollout": {"episodes": episodes, "context": 1024, "new_tokens": 8},
            "buffer": {"demonstrations": 8},
            "train": {"max_steps": episodes // 2, "batch": 4},
            "eval": {"episodes": episodes // 2},
            "clients": [{"name": "a", "env": "maze", "options": {"prompt": "short"}}],
        }
    )


def cpu_seconds(pid: int) -> float:
    """User and system time of a running process."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def started(config: Config, folder: Path) -> Iterator[Worker]:
    """A worker process with an empty home, which may not be ready yet; ended afterwards."""
    (folder / "config.toml").write_text(dump_config(config))
    socket = folder / "own" / "a.sock"
    where = ["--client", "a", "--socket", str(socket), "--home", str(folder / "home")]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedse.site.worker", str(folder / "config.toml"), *where],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process, socket)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_until_ready(worker: Worker) -> None:
    assert worker.process.stdout is not None
    said = worker.process.stdout.readline()
    if not said.startswith("ready"):
        raise SystemExit(f"the worker said {said!r} instead of ready")


def ask(worker: Worker, config: Config, adapter: Adapter) -> None:
    """The first round was answered, from the outbox if it had been before."""
    request = Question(
        experiment=config.run.name,
        round=1,
        agreed=config.agreed_digest(),
        spec=adapter.spec.identity,
        adapter=adapter.digest,
        kind="train",
        evaluate=True,
    )
    reply = ask_site(
        worker.socket,
        request.model_dump(mode="json"),
        adapter.to_bytes(),
        client=None,
        max_reply_bytes=adapter.spec.nbytes,
        timeout=PATIENCE,
    )
    if reply.fault or not reply.adapter:
        raise SystemExit(f"the worker answered with fault {reply.fault}")


def spent(worker: Worker, act: Callable[[], None], *, cpu_before: float) -> Spent:
    began = time.perf_counter()
    act()
    wall = time.perf_counter() - began
    return Spent(wall, cpu_seconds(worker.process.pid) - cpu_before)


def measured_once(config: Config, adapter: Adapter) -> dict[str, Spent]:
    # A short path: the name of a local socket has 107 bytes at most.
    with TemporaryDirectory(prefix="fedse-") as folder:
        began = time.perf_counter()
        with started(config, Path(folder)) as worker:
            wait_until_ready(worker)
            pid = worker.process.pid
            start = Spent(time.perf_counter() - began, cpu_seconds(pid))
            whole = spent(worker, lambda: ask(worker, config, adapter), cpu_before=cpu_seconds(pid))
            again = spent(worker, lambda: ask(worker, config, adapter), cpu_before=cpu_seconds(pid))
    return {"start until ready": start, "a round": whole, "the same request again": again}


def measured(base: str, episodes: int, repeats: int) -> Iterator[dict[str, object]]:
    config = config_for(base, episodes)
    adapter = initial_adapter(spec_of(config), seed=0)
    runs = [measured_once(config, adapter) for _ in range(repeats)]
    for what in runs[0]:
        row: dict[str, object] = {"base": Path(base).name, "what": what}
        row |= {"episodes": episodes, "repeats": repeats}
        cells = []
        for unit in Spent._fields:
            values = [getattr(run[what], unit) for run in runs]
            told = {"median": median(values), "low": min(values), "high": max(values)}
            row[unit] = {name: round(value, 3) for name, value in told.items()}
            cells.append(f"{told['median']:.2f} ({told['low']:.2f}-{told['high']:.2f})")
        print(f"| {row['base']} | {what} | {' | '.join(cells)} |", flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", action="append", required=True, help="a name or a folder")
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print("| base | what | wall s | CPU s |")
    print("|---|---|---|---|")
    rows = [row for base in args.base for row in measured(base, args.episodes, args.repeats)]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
