"""What real sites need while they wait for their first request: memory and CPU, by process.

    python -m research.measure_waiting_sites docs/results/waiting-sites.json --sites 50 --name NAME

Every site is started by `fedse site start` and connects, with TLS and a node key, to what
`fedse federation start` starts, but for the round loop: nobody asks anything. Pages that several
processes share are counted once (PSS). Each call adds its figures to the file, under its name.
Linux only.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedse.__main__ import end_on_sigterm
from fedse.federation.keys import PRESENCE
from fedse.flower.ops.serve_federation import serving
from tests.system.field import SHORT_ROUND, Field, field, maze_clients

EXPERIMENT = """
[run]
name = "waiting"
rounds = 1
[model]
rank = 2
[eval]
episodes = 0
[aggregate]
min_clients = 1
"""
START_SECONDS = 600.0
PARTS = {
    "fedse.flower.ops.supernode": "node",
    "fedse.site.worker": "worker",
    "superexec": "superexec",
    "site start": "starter",
}
"""By what stands in its command line."""
KEYS = ("pss", "uss", "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=10, help="sites started side by side")
    parser.add_argument("--most", type=float, default=480.0, help="no more are started after this")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of waiting")
    parser.add_argument("--light", action="store_true", help="what is tried at the start is a toy")
    parser.add_argument("--name", required=True, help="under which the figures are kept")
    given = parser.parse_args()
    end_on_sigterm()
    text = EXPERIMENT + SHORT_ROUND + maze_clients(f"site-{n:03}" for n in range(given.sites))
    with (
        tempfile.TemporaryDirectory(prefix="fedse-waiting-") as folder,
        field(Path(folder), text, light=given.light) as here,
        serving(here.federation, proxy=True),
    ):
        began = time.monotonic()
        started = start_sites(here, given.at_once, given.most)
        seconds = round(time.monotonic() - began)
        found = waiting(here, started, given.idle)
    kept = json.loads(given.out.read_text()) if given.out.is_file() else {}
    settings = {"sites": len(started), "model": None if given.light else "tiny"}
    kept[given.name] = {**settings, "seconds_to_start": seconds, **found}
    given.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept[given.name], indent=1))


def start_sites(here: Field, at_once: int, most: float) -> list[str]:
    """The sites that wait: all, or those that were started in `most` seconds."""
    started: list[str] = []
    ends = time.monotonic() + most
    while len(started) < len(here.sites) and time.monotonic() < ends:
        some = here.sites[len(started) : len(started) + at_once]
        for site in some:
            here.start_site(site)
        here.wait(START_SECONDS, until=partial(are_waiting, here, some))
        started += some
        all_of_it = [one for site in started for one in processes_of(here, site)]
        bytes_now = sum(memory(one.pid)["pss"] for one in all_of_it)
        print(f"{len(started)} sites wait, with {bytes_now / 1e9:.2f} GB", flush=True)
    return started


def are_waiting(here: Field, names: list[str]) -> bool:
    """The workers of these sites listen, and the server has let their nodes in."""

    def is_waiting(site: str) -> bool:
        log = (here.path / f"{site}.log").read_text()
        return "worker ready" in log and (here.home(site) / PRESENCE).exists()

    return all(map(is_waiting, names))


def waiting(here: Field, names: list[str], seconds: float) -> dict[str, Any]:
    """What the sites need together, each of them, and each kind of process."""
    sites = {name: list(processes_of(here, name)) for name in names}
    before = {one.pid: spent(one) for all_of_it in sites.values() for one in all_of_it}
    time.sleep(seconds)
    each: dict[str, list[dict[str, float]]] = {}
    totals = []
    for all_of_it in sites.values():
        figures = {part_of(one): {**memory(one.pid), "cpu": spent(one)} for one in all_of_it}
        for one in all_of_it:
            figures[part_of(one)]["cpu"] -= before[one.pid]
        for part, figure in figures.items():
            each.setdefault(part, []).append(figure)
        totals.append(
            {key: sum(one[key] for one in figures.values()) for key in ("pss", "uss", "cpu")}
        )
    return {
        "gigabytes_of_all": round(sum(one["pss"] for one in totals) / 1e9, 2),
        "site": medians(totals, seconds),
        **{part: medians(figures, seconds) for part, figures in each.items()},
    }


def medians(figures: list[dict[str, float]], seconds: float) -> dict[str, float]:
    """Megabytes of 10^6 bytes, with shared pages counted once and without; CPU s of a minute."""
    return {
        "pss_mb": round(median(one["pss"] for one in figures) / 1e6, 1),
        "uss_mb": round(median(one["uss"] for one in figures) / 1e6, 1),
        "cpu_seconds_per_minute": round(median(one["cpu"] for one in figures) * 60 / seconds, 2),
    }


def processes_of(here: Field, site: str) -> Iterator[psutil.Process]:
    """All that `fedse site start` started, and itself."""
    top = psutil.Process(here.running[site].pid)
    yield top
    yield from top.children(recursive=True)


def part_of(process: psutil.Process) -> str:
    try:
        line = " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return "ended"
    return next((part for mark, part in PARTS.items() if mark in line), line)


def memory(pid: int) -> dict[str, float]:
    """Bytes of a process: its share of what it has, and what no other has; 0 if it ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return {"pss": 0, "uss": 0}
    kilobytes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    own = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return {"pss": kilobytes["Pss"] * 1024, "uss": own * 1024}


def spent(process: psutil.Process) -> float:
    """CPU seconds so far; 0 if it ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
