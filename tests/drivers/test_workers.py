"""Ctrl-C with several workers: nothing begins any more, nobody is left, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from fedse.config.schema import ClientSection, Config
from fedse.drivers.run import run_local
from fedse.drivers.workers import GRACE_SECONDS, worker_processes
from fedse.envs.base import Step
from fedse.store.run import Run
from fedse.testing import CoinWorld, open_toy_site, toy_spec

ROOT = Path(__file__).parents[2]
GATE = "TEST_WORKERS_GATE"
LIMIT = 5.0
"""Seconds from Ctrl-C to the end; the workers have GRACE_SECONDS of them."""


class Held(CoinWorld):
    """Notes who plays it; answers no action before the file in $TEST_WORKERS_GATE is there."""

    def step(self, action: str) -> Step:
        gate = Path(os.environ[GATE])
        gate.with_name(f"worker-{os.getpid()}").touch()
        while not gate.exists():
            time.sleep(0.05)
        return super().step(action)


def config() -> Config:
    here = "tests.drivers.test_workers"
    clients = tuple(ClientSection(name=f"c{i}", env=f"{here}:Held") for i in range(4))
    sections = {"run": {"rounds": 2, "workers": 2}, "rollout": {"episodes": 6, "batch": 4}}
    return Config.model_validate({**sections, "eval": {"episodes": 2}, "clients": clients})


def run_here(path: Path) -> str:
    run = Run(path, config(), toy_spec(), clock=time.time)
    return run_local(run, open_site=open_toy_site).digest


# A shell that starts something in the background has it ignore Ctrl-C, and so whatever that starts.
LISTENS = "signal.signal(signal.SIGINT, signal.default_int_handler)"
RUN = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.drivers.test_workers import run_here
if __name__ == "__main__":
    {listens}
    try:
        run_here(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit("stopped")
"""


def events(path: Path) -> list[dict[str, object]]:
    log = path / "events.jsonl"
    lines = log.read_text().splitlines() if log.is_file() else []
    return [json.loads(line) for line in lines]


def begun(path: Path) -> set[object]:
    """Clients that have begun to work."""
    return {event["client"] for event in events(path) if event["event"] == "eval.started"}


def interrupted(path: Path, when: Callable[[], bool], code: str = RUN) -> tuple[float, str]:
    """Seconds from Ctrl-C to the end of the script, and what it said."""
    script = path.with_suffix(".py")
    script.write_text(code.format(root=str(ROOT), folder=str(path.parent), listens=LISTENS))
    command = [sys.executable, str(script), str(path)]
    # Ctrl-C in a terminal reaches the whole group, the workers too.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as run:
        ends = time.monotonic() + 60
        while not when():
            assert run.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.02)
        asked = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)
        try:
            _, said = run.communicate(timeout=60)
        finally:
            run.kill()
        return time.monotonic() - asked, said


def workers_of(folder: Path) -> list[int]:
    return [int(mark.name.partition("-")[2]) for mark in folder.glob("worker-*")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ctrl_c_in_a_round_with_two_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gate, path = tmp_path / "gate", tmp_path / "run"
    monkeypatch.setenv(GATE, str(gate))
    seconds, said = interrupted(path, lambda: len(workers_of(tmp_path)) == 2)
    assert (said, seconds < LIMIT) == ("stopped\n", True)
    assert [alive(pid) for pid in workers_of(tmp_path)] == [False, False]
    assert begun(path) == {"c0", "c1"}

    gate.touch()
    assert run_here(path) == run_here(tmp_path / "undisturbed")


STARTING = """
import signal, sys
from pathlib import Path
sys.path[:0] = [{root!r}, {folder!r}]
import slow_to_import
from fedse.drivers.workers import worker_processes
if __name__ == "__main__":
    {listens}
    try:
        with worker_processes(1) as workers:
            workers.submit(slow_to_import.work).result()
    except KeyboardInterrupt:
        sys.exit("stopped")
"""
SLOW_TO_IMPORT = """
import multiprocessing, os, pathlib, time
if multiprocessing.current_process().name != "MainProcess":
    pathlib.Path({folder!r}, f"worker-{{os.getpid()}}").touch()
    time.sleep(60)
def work(): ...
"""


def test_ctrl_c_while_a_worker_starts_is_answered_by_its_starter_alone(tmp_path: Path):
    module = SLOW_TO_IMPORT.format(folder=str(tmp_path))
    (tmp_path / "slow_to_import.py").write_text(module)

    def worker_is_interrupted_first() -> bool:
        for pid in workers_of(tmp_path):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.5)
            return True
        return False

    seconds, said = interrupted(tmp_path / "run", worker_is_interrupted_first, STARTING)
    assert (said, seconds < LIMIT) == ("stopped\n", True)


def stubborn(mark: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mark.touch()
    time.sleep(60)


def touch(mark: Path) -> None:
    mark.touch()


def test_a_worker_that_does_not_go_is_killed_and_waiting_work_never_begins(tmp_path: Path):
    held, waiting = tmp_path / "held", tmp_path / "waiting"
    asked: list[Future[None]] = []
    left: list[float] = []

    def interrupt() -> None:
        with worker_processes(1) as workers:
            asked.extend((workers.submit(stubborn, held), workers.submit(touch, waiting)))
            while not held.exists():
                time.sleep(0.02)
            left.append(time.monotonic())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert GRACE_SECONDS <= time.monotonic() - left[0] < LIMIT
    assert [type(one.exception()) for one in asked] == [BrokenProcessPool] * 2
    assert not waiting.exists()


def test_a_block_that_ends_has_done_all_its_work(tmp_path: Path):
    marks = [tmp_path / str(number) for number in range(5)]
    with worker_processes(2) as workers:
        for mark in marks:
            workers.submit(touch, mark)
    assert all(mark.exists() for mark in marks)
