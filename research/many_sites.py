"""How many real sites one machine and one SuperLink bear: memory, CPU and the seconds of a round.

python research/many_sites.py docs/results/many-sites.json --sites 100

Every site is started by `fedse site start` (SuperNode, its SuperExec and a worker), the server by
`fedse federation start`, with TLS and node keys. Sites come in tens; after each ten it is written
down what they need while they wait. When all are there, or when less than --spare GB of memory is
left, one round is played by those that are.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from research.measure_waiting_sites import processes_of, spent
from tests.system.field import Field, field, maze_clients

EXPERIMENT = """
[run]
name = "many"
rounds = 2
[model]
rank = 2
[rollout]
episodes = 2
context = 256
new_tokens = 4
max_turns = 2
[buffer]
demonstrations = 1
[train]
epochs = 1
max_steps = 1
[eval]
episodes = 0
[aggregate]
deadline = 1800.0
min_clients = 1
rejoin = 0.0
"""
TEN = 10
IDLE_SECONDS = 30.0
START_SECONDS = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--spare", type=float, default=2.0, help="GB of memory to leave free")
    given = parser.parse_args()
    text = EXPERIMENT + maze_clients(f"site-{n:03}" for n in range(given.sites))
    with (
        tempfile.TemporaryDirectory(prefix="fedse-many-") as folder,
        field(Path(folder), text) as here,
    ):
        steps = list(start_in_tens(here, spare=given.spare * 1e9, out=given.out))
        began = time.monotonic()
        here.start_server()
        code = here.wait_for_end(3600)
        found = {"steps": steps, "code": code, "seconds": round(time.monotonic() - began)}
        found["rounds"] = [told(result) for result in here.results()]
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def start_in_tens(here: Field, *, spare: float, out: Path) -> Any:
    """Figures after each ten sites whose workers wait; no more are started when memory is short."""
    needed = 0.0
    for start in range(0, len(here.sites), TEN):
        available = psutil.virtual_memory().available
        if available - needed < spare:
            return
        ten, began = here.sites[start : start + TEN], time.monotonic()
        for site in ten:
            here.start_site(site)
        here.wait(START_SECONDS, until=lambda ten=ten: all(is_ready(here, site) for site in ten))
        figures = {
            "sites": start + len(ten),
            "seconds": round(time.monotonic() - began),
            **waiting(here),
        }
        # The next ten will need as much.
        needed = available - psutil.virtual_memory().available
        out.write_text(json.dumps(figures) + "\n")
        print(json.dumps(figures), flush=True)
        yield figures


def is_ready(here: Field, site: str) -> bool:
    """The site's processes run, and its worker has said that it listens."""
    log = here.home(site) / "worker.log"
    return bool(here.roll(site)) and log.exists() and "ready" in log.read_text()


def waiting(here: Field) -> dict[str, float]:
    """What all sites together need while nobody asks them anything."""
    all_of_them = [process for site in here.running for process in processes_of(here, site)]
    before = sum(map(spent, all_of_them))
    time.sleep(IDLE_SECONDS)
    cores = (sum(map(spent, all_of_them)) - before) / IDLE_SECONDS
    unshared = sum(process.memory_full_info().uss for process in all_of_them)
    return {
        "processes": len(all_of_them),
        "unshared GB": round(unshared / 1e9, 2),
        "available GB": round(psutil.virtual_memory().available / 1e9, 2),
        "idle cores": round(cores, 3),
    }


def told(result: Any) -> dict[str, Any]:
    return {
        "round": result.index,
        "seconds": round(result.seconds, 1),
        "voters": len(result.voters),
        "excluded": len(result.excluded),
        "absent": len(result.absent),
    }


if __name__ == "__main__":
    main()
