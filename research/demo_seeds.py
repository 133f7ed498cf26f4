"""Run `fedse demo` for several seeds and keep each result, as a user would get it.

    python -m research.demo_seeds docs/results/demo-seeds.json --seeds 10

Each seed is a fresh process; wall seconds depend on what else the machine does, CPU seconds less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.cpu_time import children_cpu_seconds


def run_demo(seed: int, folder: str) -> dict[str, object]:
    """The result of one demo: what it printed, and what it cost."""
    command = [sys.executable, "-m", "fedse", "demo", "--json", "--seed", str(seed)]
    before, started = children_cpu_seconds(), time.monotonic()
    told = subprocess.run([*command, "--out", folder], capture_output=True, text=True, check=True)
    cpu, wall = children_cpu_seconds() - before, time.monotonic() - started
    result = json.loads(told.stdout.splitlines()[-1])
    return {
        "seed": seed,
        "all": result["all"],
        "environments": result["environments"],
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as folder:
            results.append(run_demo(seed, folder))
        args.out.write_text(json.dumps(results, indent=1) + "\n")
        found = results[-1]["all"]
        print(seed, json.dumps(found), results[-1]["wall_seconds"], flush=True)
    above = sum(r["all"]["change"]["low"] > 0 for r in results)  # type: ignore[index]
    print(f"interval of the gain above zero: {above} of {len(results)} seeds")


if __name__ == "__main__":
    main()
