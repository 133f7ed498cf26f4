"""How many sites one coordinator carries: real nodes without models, TLS, node keys, a SuperLink.

    python -m research.many_nodes docs/results/many-nodes.json --sites 100 --rank 32 --name NAME

The coordinator is started by `fedse federation start`: SuperLink, SuperExec, proxy and round loop
in processes of their own. The sites are threads of a few processes that speak Flower's fleet
protocol over TLS, each with its own key and connection, ask every three seconds and answer with an
adapter of the agreed size that nobody trained. Written down: seconds and CPU seconds of a round, by
process, and their memory. Each call adds its figures to the file, under its name.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.system.field import REPOSITORY, Field, field, maze_clients

EXPERIMENT = """
[run]
name = "many"
rounds = {rounds}
[model]
rank = {rank}
[eval]
episodes = 0
[aggregate]
deadline = 3600.0
min_clients = {sites}
[storage]
rounds = 2
"""
NODES_PER_PROCESS = 150
START_SECONDS, ROUND_SECONDS = 900.0, 3600.0


@contextmanager
def nodes_of(here: Field, waiting: float) -> Iterator[list[psutil.Process]]:
    """The processes in which all sites of the federation are online, until the block is left."""
    card = here.federation.card
    server, ca = f"{card.host}:{card.port}", here.home(here.sites[0]) / "ca.crt"
    where = [server, str(ca), str(waiting), str(len(here.sites))]
    started = []
    for start in range(0, len(here.sites), NODES_PER_PROCESS):
        homes = [str(here.home(one)) for one in here.sites[start : start + NODES_PER_PROCESS]]
        command = [sys.executable, "-m", "research.light_nodes", *where]
        log = (here.path / f"nodes-{start}.log").open("wb")
        started.append(
            subprocess.Popen(
                [*command, *homes],
                cwd=REPOSITORY,
                env=here.environment("nodes"),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
    try:
        yield [psutil.Process(one.pid) for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()


def cpu_by_part(here: Field, nodes: list[psutil.Process]) -> dict[str, float]:
    """CPU seconds so far of each process that the coordinator keeps, and of all nodes."""
    parts = {"nodes": sum(_cpu(one) for one in nodes)}
    for process in here.roll("server"):
        top = psutil.Process(process["pid"])
        parts[process["name"]] = sum(_cpu(one) for one in (top, *top.children(recursive=True)))
    return parts


def _cpu(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return used.user + used.system


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {part: round(after[part] - before.get(part, 0.0), 2) for part in after}


def megabytes(here: Field) -> dict[str, int]:
    """Resident memory of each process that the coordinator keeps."""
    found = {}
    for process in here.roll("server"):
        top = psutil.Process(process["pid"])
        parts = (top, *top.children(recursive=True))
        found[process["name"]] = round(sum(one.memory_info().rss for one in parts) / 1e6)
    return found


def measured(here: Field, rounds: int, waiting: float) -> dict[str, Any]:
    """The figures of all rounds but the first, in which nodes come and fetch the app."""
    here.start_server()
    here.wait(START_SECONDS, until=lambda: bool(here.roll("server")))
    with nodes_of(here, waiting) as nodes:
        found, last, done = [], time.monotonic(), 0
        before: dict[str, float] = {}
        while done < rounds:
            here.wait(ROUND_SECONDS, until=partial(_is_beyond, here, done))
            now, used = time.monotonic(), cpu_by_part(here, nodes)
            if done:
                seconds = round(now - last, 1)
                found.append({"seconds": seconds, "cpu_seconds": difference(used, before)})
            last, before, done = now, used, _committed(here)
        memory = megabytes(here)
        results = here.results()
    votes = [len(one.voters) for one in results]
    return {"rounds": found, "votes": votes, "megabytes": memory}


def _committed(here: Field) -> int:
    return sum(event["event"] == "round.committed" for event in here.events())


def _is_beyond(here: Field, rounds: int) -> bool:
    return _committed(here) > rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--rank", type=int, default=32, help="of the adapter; 32 is about 1 MB")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--work", type=float, default=20.0, help="seconds until a site answers")
    parser.add_argument("--name", required=True, help="under which the figures are kept")
    given = parser.parse_args()
    text = EXPERIMENT.format(rounds=given.rounds, rank=given.rank, sites=given.sites)
    text += maze_clients(f"site-{n:04}" for n in range(given.sites))
    with tempfile.TemporaryDirectory(prefix="fedse-nodes-") as folder:
        began = time.monotonic()
        with field(Path(folder), text) as here:
            enrolled = round(time.monotonic() - began, 1)
            print(f"{given.sites} sites are enrolled after {enrolled} s", flush=True)
            found = measured(here, given.rounds, given.work)
    settings = {"sites": given.sites, "rank": given.rank, "seconds_of_work": given.work}
    kept = json.loads(given.out.read_text()) if given.out.is_file() else {}
    kept[given.name] = {**settings, "enrolment_seconds": enrolled, **found}
    given.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept[given.name], indent=1))


if __name__ == "__main__":
    main()
