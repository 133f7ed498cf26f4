"""Many rounds of a real federation with kills at random, and what its processes and files grow to.

Every process is looked at every few seconds, as its owner's operator would with `ps`; a part that
holds more memory, descriptors or threads towards the end than before leaks.
"""

import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from tests.system.field import Field, field, undisturbed
from tests.system.kills import (
    CLIENT_POINTS,
    ROUND_SECONDS,
    SERVER_POINTS,
    SITES,
    Matrix,
    account,
    experiment,
)

LOOK_SECONDS = 3.0
QUARTERS = 4
MEASURES = ("memory", "descriptors", "threads")


class Look(NamedTuple):
    """One part of the federation at one moment; a part is a process with all below it."""

    round: int
    part: str
    memory: int
    """Bytes that no other process shares (USS)."""
    descriptors: int
    threads: int


class FileLook(NamedTuple):
    round: int
    file: str
    size: int
    """Bytes, with its write-ahead log."""


class Soak(NamedTuple):
    looks: list[Look]
    files: list[FileLook]
    matrix: Matrix


def soak(path: Path, *, rounds: int, kills: int, seed: int) -> Soak:
    """All rounds are over; `kills` of them were struck, each at one point drawn by `seed`."""
    text = experiment(rounds)
    expected, local = undisturbed(path, text)
    with field(path / "field", text) as here:
        for who, event, round in drawn(rounds, kills, random.Random(seed)):
            here.order(who, event, round)
        for site in SITES:
            here.start_site(site)
        here.start_server()
        with looking(here) as (looks, files):
            code = here.wait_for_end(ROUND_SECONDS * rounds)
        assert code == 0, here.last_words()
        assert set(here.end().values()) == {0}
        return Soak(looks, files, account(here, expected, local))


def drawn(rounds: int, kills: int, rng: random.Random) -> Iterator[tuple[str, str, int]]:
    """Who dies, at which event and in which round; no round is struck twice, the last never."""
    points = [
        *((site, event) for event in CLIENT_POINTS.values() for site in SITES),
        *(("server", event) for event in SERVER_POINTS.values()),
    ]
    for round in sorted(rng.sample(range(1, rounds), kills)):
        yield (*rng.choice(points), round)


@contextmanager
def looking(here: Field) -> Iterator[tuple[list[Look], list[FileLook]]]:
    """What is found grows while the block runs; a look that failed is an error after it.

    Of rounds that nobody looked at it would else be said that nothing grew in them.
    """
    looks: list[Look] = []
    files: list[FileLook] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            round = sum(event["event"] == "round.committed" for event in here.events())
            looks.extend(processes(here, round))
            files.extend(FileLook(round, *found) for found in sizes(here).items())

    with ThreadPoolExecutor(1) as threads:
        watcher = threads.submit(look)
        try:
            yield looks, files
        finally:
            over.set()
        watcher.result()


def processes(here: Field, round: int) -> Iterator[Look]:
    """Every part that runs now; one that ends while it is looked at is left out."""
    for owner, starter in list(here.running.items()):
        names = {entry["pid"]: entry["name"] for entry in here.roll(owner)}
        roots = {starter.pid: "starter", **names}
        for pid, name in roots.items():
            try:
                root = psutil.Process(pid)
                below = root.children(recursive=True) if name != "starter" else []
                found = [_of(process) for process in (root, *below)]
            except psutil.Error:
                continue
            side = "server" if owner == "server" else "site"
            yield Look(round, f"{side} {name}", *map(sum, zip(*found, strict=True)))


def _of(process: psutil.Process) -> tuple[int, int, int]:
    return process.memory_full_info().uss, process.num_fds(), process.num_threads()


def sizes(here: Field) -> dict[str, int]:
    """Bytes of everything that a long run might fill a disk with."""
    federation, home = here.federation.path, here.home(SITES[0])
    watched = {
        "superlink.db": [federation / "superlink.db"],
        "run/state.db": [here.federation.run / "state.db"],
        "run/events.jsonl": [here.federation.run / "events.jsonl"],
        "server logs": [*(federation / "logs").rglob("*")],
        "site buffer.db": [home / "buffer.db"],
        "site logs": [*(home / "logs").rglob("*"), home / "worker.log"],
    }
    return {name: sum(map(_size, found)) for name, found in watched.items()}


def _size(file: Path) -> int:
    try:
        with_log = (file, file.with_name(file.name + "-wal"))
        return sum(one.stat().st_size for one in with_log if one.is_file())
    except FileNotFoundError:
        return 0


def quarters(looks: Sequence[Look], rounds: int) -> dict[str, dict[str, list[int]]]:
    """Of every part and measure the median in each quarter of the rounds."""
    found: dict[tuple[str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for look in looks:
        quarter = min(QUARTERS - 1, look.round * QUARTERS // rounds)
        for measure in MEASURES:
            found[look.part, measure][quarter].append(getattr(look, measure))
    table: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (part, measure), by_quarter in sorted(found.items()):
        table[part][measure] = [round(median(by_quarter[q])) for q in sorted(by_quarter)]
    return dict(table)


def grown(table: Mapping[str, Mapping[str, Sequence[int]]], *, most: float) -> dict[str, float]:
    """Parts whose last quarter is more than `most` times the second, when all had begun."""
    return {
        f"{part}, {measure}": round(values[-1] / values[1], 3)
        for part, measures in table.items()
        for measure, values in measures.items()
        if len(values) == QUARTERS and values[-1] > most * values[1]
    }


def told(soak: Soak, rounds: int) -> dict[str, Any]:
    """The quarters, the files when each ended, and what the kills cost."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for quarter in range(1, QUARTERS + 1):
        until = rounds * quarter // QUARTERS
        last = {look.file: look.size for look in soak.files if look.round <= until}
        for file, size in last.items():
            by_file[file].append(size)
    matrix = soak.matrix._asdict()
    return {
        "rounds": rounds,
        "kills": len(matrix.pop("kills")),
        "looks": len(soak.looks),
        "parts": quarters(soak.looks, rounds),
        "files": dict(by_file),
        **matrix,
    }
