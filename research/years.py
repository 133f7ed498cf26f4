"""Thousands of rounds with kills: does a round cost more at the end than at the beginning?

    python -m research.years docs/results/years.json --rounds 10000 --kills 200

Sites are toys without a model, so what is measured is all the rest. A process takes the run as far
as it gets before it is killed with SIGKILL at a random moment; the next one goes on. For each
thousand rounds: CPU time of all processes, start-up included, resident memory, open files, and
bytes by which the folder grew. The digest of the last adapter is that of a run without kills.
"""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

SITES, BLOCK, LOOK = 3, 1000, 100
"""Rounds whose figures are one row, and after how many the folder is measured."""


def settings(rounds: int) -> Config:
    return Config.model_validate(
        {
            "run": {"name": "years", "rounds": rounds},
            "rollout": {"episodes": 2},
            "eval": {"episodes": 1},
            "storage": {"rounds": 4, "answers": 2},
            "buffer": {"keep_played": False},
            "clients": [
                {"name": f"site-{i}", "env": "fedse.testing:CoinWorld"} for i in range(SITES)
            ],
        }
    )


def go_on(folder: Path, rounds: int, notes: Path) -> None:
    """All rounds are committed; after each one its figures are in `notes`."""

    def look(event: str, facts: dict[str, Any]) -> None:
        if event != "round.committed":
            return
        figures = {
            "process": os.getpid(),
            "round": facts["round"],
            "cpu": time.process_time(),
            "memory": resident(),
            "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        }
        if facts["round"] % LOOK == 0:
            figures["bytes"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        with notes.open("a") as file:
            file.write(json.dumps(figures) + "\n")

    config = settings(rounds)
    with closing(Run(folder, config, toy_spec(), clock=time.time, observers=[look])) as run:
        run_local(run, open_site=open_toy_site)


def resident() -> float:
    """Megabytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def reached(notes: Path) -> int:
    """The last round of which there are figures."""
    if not notes.exists():
        return 0
    with notes.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1000))
        lines = file.read().splitlines()
    return int(json.loads(lines[-1])["round"]) if lines else 0


def within(rounds: int, parts: int, part: int) -> range:
    """The rounds of one of so many parts of equal length."""
    return range(part * rounds // parts + 1, (part + 1) * rounds // parts)


def live(folder: Path, rounds: int, kills: int, seed: int) -> Path:
    """The run was killed so often, at random, and reached its end."""
    notes, draw = folder / "notes.jsonl", random.Random(seed)
    parts = max(1, rounds // BLOCK)
    at = [
        round
        for part in range(parts)
        for round in sorted(draw.sample(within(rounds, parts, part), kills // parts))
    ]
    command = [sys.executable, "-m", "research.years", str(notes), "--child", str(folder / "run")]
    for target in [*at, None]:
        child = subprocess.Popen([*command, "--rounds", str(rounds)], stdout=subprocess.DEVNULL)
        while child.poll() is None and (target is None or reached(notes) < target):
            time.sleep(0.05 if target else 1.0)
        if child.poll() is None:
            time.sleep(draw.random() * 0.1)
            child.send_signal(signal.SIGKILL)
        child.wait()
    return notes


def blocks(notes: Path) -> list[dict[str, Any]]:
    """The figures of each thousand rounds."""
    rows = [json.loads(line) for line in notes.read_text().splitlines()]
    spent: dict[int, list[float]] = {}
    before: dict[int, float] = {}
    for row in rows:
        used = row["cpu"] - before.get(row["process"], 0.0)
        before[row["process"]] = row["cpu"]
        spent.setdefault((row["round"] - 1) // BLOCK, []).append(used)
    found = []
    for block, used in sorted(spent.items()):
        own = [row for row in rows if (row["round"] - 1) // BLOCK == block]
        found.append(
            {
                "rounds": f"{block * BLOCK + 1}-{block * BLOCK + len(own)}",
                "processes": len({row["process"] for row in own}),
                "cpu_ms_per_round": round(1000 * sum(used) / len(own), 2),
                "cpu_ms_median_round": round(1000 * statistics.median(used), 2),
                "megabytes": round(max(row["memory"] for row in own), 1),
                "open_files": max(row["files"] for row in own),
                "bytes_per_round": growth([row for row in own if "bytes" in row]),
            }
        )
    return found


def growth(rows: list[dict[str, Any]]) -> float | None:
    """Bytes by which the folder grew in a round, on average from the first of these to the last."""
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    grown: int = last["bytes"] - first["bytes"]
    rounds: int = last["round"] - first["round"]
    return round(grown / rounds, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help="go on with the run in this folder")
    given = parser.parse_args()
    if given.child:
        go_on(given.child, given.rounds, given.result)
        return
    with tempfile.TemporaryDirectory(prefix="fedse-years-", dir="/dev/shm") as name:
        folder = Path(name)
        notes = live(folder, given.rounds, given.kills, given.seed)
        found = blocks(notes)
        sound = [verify_ledger(path).finding for path in ledgers_in(folder / "run")]
    first, last = found[0], found[-1]
    whole = {
        "rounds": given.rounds,
        "kills": given.kills,
        "ledgers": len(sound),
        "faults": sum(one is not None for one in sound),
        "last_to_first": round(last["cpu_ms_per_round"] / first["cpu_ms_per_round"], 3),
        "blocks": found,
    }
    given.result.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
