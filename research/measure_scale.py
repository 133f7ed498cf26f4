"""What a run on this machine needs with 10, 100 and 1000 clients: CPU seconds, memory, open files.

The sites are toys without a model (fedse/testing.py), so what is measured is all the rest: asking,
playing, storing, validating, merging, drift, the ledgers. Prints JSON. Linux only. FOLDER in memory
(/dev/shm) leaves out the waiting for a disk, which costs no CPU time.

OPENBLAS_THREAD_TIMEOUT=4 python -m research.measure_scale --folder /dev/shm > scale.json
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from research.measure_merge import forget_peak, peak_bytes


class ScaleFigures(NamedTuple):
    """One whole run."""

    clients: int
    rounds: int
    cpu_seconds: float
    cpu_milliseconds_per_client_and_round: float
    last_round_cpu_seconds: float
    """The first one also opens all ledgers and buffers for the first time."""
    peak_mb: float
    """Resident memory of the process, at its highest."""
    most_open_files: int
    digest: str
    """Of the last adapter."""


def config_for(clients: int, *, rounds: int) -> Config:
    world = "fedse.testing:CoinWorld"
    return Config.model_validate(
        {
            "run": {"name": "scale", "rounds": rounds},
            "rollout": {"episodes": 2},
            "eval": {"episodes": 1},
            "clients": [{"name": f"site-{i:04d}", "env": world} for i in range(clients)],
        }
    )


def measure(clients: int, *, rounds: int, folder: Path) -> ScaleFigures:
    """The figures of a run in `folder` from its first round to its last."""
    began: list[float] = []
    files: list[int] = []

    def look(event: str, facts: object) -> None:
        if event == "round.started":
            began.append(time.process_time())
        elif event == "aggregate.started":
            files.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))

    forget_peak()
    started = time.process_time()
    config = config_for(clients, rounds=rounds)
    with closing(Run(folder, config, toy_spec(), clock=time.time, observers=[look])) as run:
        final = run_local(run, open_site=open_toy_site)
    ended = time.process_time()
    return ScaleFigures(
        clients=clients,
        rounds=rounds,
        cpu_seconds=round(ended - started, 2),
        cpu_milliseconds_per_client_and_round=round(1000 * (ended - started) / clients / rounds, 2),
        last_round_cpu_seconds=round(ended - began[-1], 2),
        peak_mb=round(peak_bytes() / 1e6, 1),
        most_open_files=max(files),
        digest=final.digest,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the runs are written; they are removed")
    args = parser.parse_args()
    found = []
    for clients in args.clients:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            figures = measure(clients, rounds=args.rounds, folder=Path(folder) / "run")
        print(figures, file=sys.stderr, flush=True)
        found.append(figures._asdict())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
