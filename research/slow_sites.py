"""What slow sites cost, and what a pace and late votes bring: real workers, one in ten is slow.

    python -m research.slow_sites docs/results/slow-sites.json --sites 10 --minutes 8

Each site is a worker process of its own at its own socket, without a model: its training takes a
drawn time (lognormal, as in the model of docs/explanation/scale.md, but with seconds in place of
minutes) and moves the adapter a fifth of the way to a target of its own. The server is the round
loop with the transport of a deployment; in the place of Flower's processes, a thread per site
carries one message at a time to the socket and hangs up when it expires. All arms run side by side
for the same time. The result: rounds an hour, the share of work that counted, how often a slow site
was counted, and how far the adapter is from the mean of all targets, where it began at 1.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.course import Course
from fedse.drivers.loop import federate
from fedse.flower.messages.wire import read_request, reply_content
from fedse.flower.server.transport import GridAsk
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.site import worker
from fedse.site.listening import SocketAddress
from fedse.site.socket_client import ask_site
from fedse.store.next_round import ask_to_stop
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.types import Adapter, Fitted, FloatVector

SPEC = toy_spec()
MEDIAN, SPREAD, SLOWER, DEADLINE = 6.0, 0.5, 10.0, 36.0
"""Seconds of the median site, sigma of its logarithm, how much slower one in ten is, and the
deadline: six times the median, as one hour is to ten minutes."""
STEP = 0.2
ARMS: Mapping[str, Mapping[str, float | int]] = {
    "deadline": {},
    "pace": {"pace": 2.0},
    "pace and late votes": {"pace": 2.0, "late": 10},
}


def settings(arm: str, sites: int, seed: int) -> Config:
    limits = {"deadline": DEADLINE, "clip": "none", "rejoin": 0.0, **ARMS[arm]}
    names = [f"site-{i:03}" for i in range(sites)]
    return Config.model_validate(
        {
            "run": {"name": "slow", "rounds": 100_000, "seed": seed},
            "rollout": {"episodes": 2},
            "eval": {"episodes": 0},
            "storage": {"rounds": 20},
            "aggregate": limits,
            "clients": [{"name": name, "env": "fedse.testing:CoinWorld"} for name in names],
        }
    )


def is_slow(config: Config, site: str) -> bool:
    """One in ten, the last ones."""
    return [*config.members].index(site) >= len(config.clients) * 9 // 10


def target(config: Config, site: str) -> FloatVector:
    draw = np.random.default_rng(seed_of(config.run.seed, "target", site))
    return draw.standard_normal(SPEC.size).astype(np.float32)


def distance(config: Config, adapter: Adapter) -> float:
    """From the mean of all targets, in units of where every run begins."""
    mean = np.mean([target(config, site) for site in config.members], axis=0)
    begun = initial_adapter(SPEC, seed=config.run.seed).vector
    away = float(np.linalg.norm(adapter.vector - mean))
    return away / float(np.linalg.norm(begun - mean))


def seconds_for(config: Config, site: str, round: int) -> float:
    draw = np.random.default_rng(seed_of(config.run.seed, "seconds", site, round))
    slower = SLOWER if is_slow(config, site) else 1.0
    return float(slower * MEDIAN * np.exp(SPREAD * draw.standard_normal()))


def slow_site(config: Config, client: str, home: Path, beat: Callable[[], None]) -> Site:
    """A toy site whose training takes its time; what it worked is in `work.jsonl`."""
    site = open_toy_site(config, client, home, clock=time.time)

    def fit(start: Adapter, lessons: object, given: object, seed: int, course: Course) -> Fitted:
        begun, left = time.monotonic(), seconds_for(config, client, course.round)
        try:
            while time.monotonic() < begun + left:
                time.sleep(0.1)
                beat()
        finally:
            worked = time.monotonic() - begun
            note = {"round": course.round, "seconds": worked, "done": worked >= left}
            with (home / "work.jsonl").open("a") as file:
                file.write(json.dumps(note) + "\n")
        moved = start.vector + np.float32(STEP) * (target(config, client) - start.vector)
        return Fitted(Adapter(SPEC, moved), loss=1.0, steps=1)

    return replace(site, fit=fit)


def work(config: Config, client: str, home: Path, socket: Path) -> None:
    """This process is the worker of one site until it is ended."""

    def opened(_: Config, name: str, own: Path, *, beat: Any, **_more: object) -> Site:
        return slow_site(config, name, own, beat)

    worker.open_site = opened  # type: ignore[assignment]
    worker.run_worker(config, [client], SocketAddress(socket), home)


class SocketGrid:
    """In the place of Flower: a thread per site, which carries one message at a time."""

    def __init__(self, sockets: Sequence[Path]) -> None:
        self._queues: list[SimpleQueue[tuple[Message, float]]] = [SimpleQueue() for _ in sockets]
        self._replies: dict[str, Message] = {}
        self._sent, self._names = 0, [socket.parent.name for socket in sockets]
        for queue, socket in zip(self._queues, sockets, strict=True):
            threading.Thread(target=self._carry, args=(queue, socket), daemon=True).start()

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=i, name=name, last_activated_at="")
            for i, name in enumerate(self._names)
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = []
        for message in messages:
            self._sent += 1
            message.metadata.__dict__["_message_id"] = str(self._sent)
            sent.append(str(self._sent))
            expires = time.monotonic() + message.metadata.ttl
            self._queues[message.metadata.dst_node_id].put((message, expires))
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def _carry(self, queue: "SimpleQueue[tuple[Message, float]]", socket: Path) -> None:
        while True:
            message, expires = queue.get()
            left = expires - time.monotonic()
            if left <= 0:
                continue
            request, body = read_request(message.content)
            reply = ask_site(
                socket, request, body, client=None, max_reply_bytes=SPEC.nbytes, timeout=left
            )
            # A SuperLink refuses the answer to a message that has expired.
            if time.monotonic() < expires:
                content = reply_content(reply, salt=1)
                self._replies[message.metadata.message_id] = Message(content, reply_to=message)


@contextmanager
def workers(config: Config, arm: str, folder: Path) -> Iterator[list[Path]]:
    """The sockets of all sites, whose processes listen there until the end."""
    homes = [folder / "sites" / name for name in config.members]
    started = []
    for home in homes:
        home.mkdir(parents=True)
        command = [sys.executable, "-m", "research.slow_sites", "-", "--worker", str(home)]
        command += ["--arm", arm, "--sites", str(len(homes)), "--seeds", str(config.run.seed)]
        log = (home / "log").open("wb")
        started.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
    try:
        sockets = [home / "own" / "s" for home in homes]
        while not all(socket.exists() for socket in sockets):
            assert all(process.poll() is None for process in started)
            time.sleep(0.2)
        yield [_named(socket) for socket in sockets]
    finally:
        for process in started:
            process.terminate()
            process.wait()


def _named(socket: Path) -> Path:
    """The same socket by a path whose folder has the site's name."""
    link = socket.parents[1] / "by-name" / socket.parents[1].name
    link.parent.mkdir()
    link.symlink_to(socket.parent)
    return link / socket.name


def measure(arm: str, sites: int, seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """The figures of one arm."""
    config = settings(arm, sites, seed)
    with (
        workers(config, arm, folder) as sockets,
        closing(Run(folder / "run", config, SPEC, clock=time.time)) as run,
    ):
        begun = time.monotonic()
        end = threading.Timer(seconds, ask_to_stop, [run.path])
        end.start()
        grid: Any = SocketGrid(sockets)
        final = federate(run, GridAsk(grid, run, join_seconds=60), clock=time.time)
        lasted = time.monotonic() - begun
        results = [*run.results()]
    verdicts = [verify_ledger(path).finding for path in ledgers_in(folder / "run")]
    slow = {site for site in config.members if is_slow(config, site)}
    late = {(one.client, one.round) for r in results for one in r.late}
    counted = {(v, r.index) for r in results for v in r.voters} | late
    done = [
        (one["seconds"], (file.parent.name, one["round"]) in counted and one["done"])
        for file in (folder / "sites").glob("*/work.jsonl")
        for one in map(json.loads, file.read_text().splitlines())
    ]
    all_votes = sum(len(r.voters) for r in results)
    return {
        "arm": arm,
        "seed": seed,
        "rounds": len(results),
        "rounds_an_hour": round(3600 * len(results) / lasted, 1),
        "votes_an_hour": round(3600 * all_votes / lasted),
        "late_votes": len(late),
        "votes_of_slow_sites": sum(v in slow for r in results for v in r.voters),
        "share_of_work_that_counted": round(
            sum(s for s, good in done if good) / sum(s for s, _ in done), 3
        ),
        "distance": round(distance(config, final), 4),
        "ledger_faults": sum(one is not None for one in verdicts),
    }


def side_by_side(folder: Path, seed: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of all arms with one seed."""
    options = ["--sites", str(given.sites), "--minutes", str(given.minutes), "--seeds", str(seed)]
    parts = {arm: folder / f"{seed}-{i}.json" for i, arm in enumerate(ARMS)}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "research.slow_sites", str(part), "--arm", arm, *options]
        )
        for arm, part in parts.items()
    ]
    codes = [process.wait() for process in running]
    assert not any(codes), codes
    return [json.loads(part.read_text()) for part in parts.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--arm", choices=ARMS, help="only this one")
    parser.add_argument("--worker", type=Path, help="be the worker of the site with this home")
    given = parser.parse_args()
    if given.worker:
        config = settings(given.arm, given.sites, given.seeds[0])
        work(config, given.worker.name, given.worker, given.worker / "own" / "s")
        return
    for name in ("_run_id", "_node_id", "_task_id"):
        setattr(TaskIdentity, name, 1)  # Flower makes messages only inside one of its tasks
    with tempfile.TemporaryDirectory(prefix="slow-", dir="/dev/shm") as name:
        if given.arm:
            found = measure(given.arm, given.sites, 60 * given.minutes, given.seeds[0], Path(name))
            given.result.write_text(json.dumps(found, indent=1) + "\n")
            return
        found = {
            "sites": given.sites,
            "minutes": given.minutes,
            "median_seconds": MEDIAN,
            "deadline_seconds": DEADLINE,
            "arms": [one for seed in given.seeds for one in side_by_side(Path(name), seed, given)],
        }
    given.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
