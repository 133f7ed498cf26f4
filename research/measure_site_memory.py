"""Most memory that one site needs in a round, and its engine beside it.

    FEDSE_MODELS=FOLDER python research/measure_site_memory.py docs/results/site-memory.json \
        --python PYTHON_WITH_VLLM --earlier CHECKOUT

One client in a maze plays eight games and takes four optimiser steps of four episodes, with
SmolLM2 in its own process in float32 and in bfloat16, and with a server. CHECKOUT is an earlier
state of this repository, measured in the same way in float32. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import tomlkit

from fedse.adapters.base import base_path

ROOT = Path(__file__).parents[1]
EXPERIMENT: dict[str, Any] = {
    "run": {"name": "memory", "rounds": 1},
    "model": {"rank": 8, "alpha": 16.0},
    "rollout": {"episodes": 8, "context": 768, "new_tokens": 16},
    "buffer": {"demonstrations": 16},
    "train": {"epochs": 1, "batch": 4, "max_steps": 4},
    "eval": {"episodes": 0},
    "clients": [{"name": "maze", "env": "maze", "options": {"prompt": "short"}}],
}
LOOK_SECONDS = 0.2


def most_of(pid: int) -> float:
    """VmHWM of a process in MB of 10^6 bytes; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = [line for line in lines if line.startswith("VmHWM")]
    return int(found[0].split()[1]) * 1024 / 1e6 if found else 0.0


def measured(sections: dict[str, Any], checkout: Path) -> dict[str, float]:
    """MB of the site's process, and of all that it started together, at their highest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        experiment = {**EXPERIMENT, "model": {**EXPERIMENT["model"], "base": base()}, **sections}
        (folder / "memory.toml").write_text(tomlkit.dumps(experiment))
        process = subprocess.Popen(
            [sys.executable, "-m", "fedse", "run", str(folder / "memory.toml"), "--plain"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(checkout), "FEDSE_RUNS": str(folder / "runs")},
            stdout=subprocess.DEVNULL,
        )
        most: dict[int, float] = {}
        while process.poll() is None:
            for pid in family(process.pid):
                most[pid] = max(most.get(pid, 0.0), most_of(pid))
            time.sleep(LOOK_SECONDS)
        if process.returncode:
            sys.exit(f"fedse run ended with {process.returncode} in {checkout}")
    site = most.pop(process.pid)
    return {"site": round(site), "started": round(sum(most.values()))}


def family(pid: int) -> list[int]:
    """The process and all that it started, as far as they still run."""
    try:
        return [pid, *(one.pid for one in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def base() -> str:
    return str(base_path("smollm2-135m"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--earlier", type=Path)
    args = parser.parse_args()
    served = {"type": "vllm", "python": args.python, "adapters": "merged", "memory": 1.0}
    bfloat16 = {"precision": "bfloat16", "max_tokens": 768}
    ways: dict[str, tuple[dict[str, Any], Path]] = {
        "in its own process, float32": ({}, ROOT),
        "in its own process, bfloat16": ({"trainer": bfloat16}, ROOT),
        "with a server, bfloat16": ({"engine": served, "trainer": bfloat16}, ROOT),
    }
    if args.earlier:
        ways = {"earlier, float32": ({}, args.earlier), **ways}
    found = {}
    for name, (sections, checkout) in ways.items():
        found[name] = measured(sections, checkout)
        print(name, found[name], flush=True)
    args.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
