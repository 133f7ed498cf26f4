"""A full disk ends nobody who keeps processes: they run again, by themselves, when it has room."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedse.processes.group import Processes, Started
from fedse.processes.restart import HOPELESS, RestartingProcess
from fedse.store.space import Need, RoomWatch
from tests.toys.small_disk import fill, free, small_disk

WRITES = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1])
try:
    file.write_bytes(bytes(4096))
except OSError:
    sys.exit(7)
time.sleep(60)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 1) as folder:
        yield folder


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def kept(processes: Processes, disk: Path, told: list[str]) -> RestartingProcess:
    file = disk / "written"

    def start() -> Started:
        file.unlink(missing_ok=True)
        return processes.start("worker", [sys.executable, "-c", WRITES, str(file)])

    def ready() -> bool:
        return file.exists() and file.stat().st_size > 0

    room = RoomWatch(Need(disk, 1 << 16, "an answer"), tell=told.append)
    return RestartingProcess(processes, start, tell=told.append, ready=ready, lacking=room.lacking)


def recorded(logs: Path) -> list[str]:
    """What the roll of `logs` has running."""
    return [
        process["name"]
        for file in logs.glob("running-*.json")
        for process in json.loads(file.read_text())["running"]
    ]


def test_what_could_not_be_recorded_runs_and_is_recorded_when_there_is_room(disk: Path):
    code = "import time; time.sleep(60)"
    with Processes(disk, os.environ) as processes:
        fill(disk)
        (disk / "sleeper.log").touch()
        started = processes.start("sleeper", [sys.executable, "-c", code])
        assert processes.collect(started) is None
        assert recorded(disk) == []
        free(disk)
        assert processes.collect(started) is None
        assert recorded(disk) == ["sleeper"]


def test_a_process_that_dies_of_a_full_disk_is_never_hopeless_and_comes_back(disk: Path):
    told: list[str] = []
    with Processes(disk, os.environ) as processes:
        one, now = kept(processes, disk, told), 0.0
        one.look(now)
        fill(disk)
        assert one.started is not None
        one.started.process.kill()
        one.started.process.wait(20)
        for now in range(20, 20 * (HOPELESS + 5), 20):
            one.look(float(now))
            assert one.started is None, "nothing is started meanwhile"
        assert [line for line in told if "is full" in line or "takes no more" in line][1:] == []
        free(disk)
        one.look(now + 20.0)
        assert one.started is not None
        until(lambda: (disk / "written").exists())
    assert sum("has room again" in line for line in told) == 1


def test_ends_before_it_is_ready_count_only_while_there_is_room(disk: Path):
    told: list[str] = []
    with Processes(disk, os.environ) as processes:
        one = kept(processes, disk, told)
        for now in range(0, 40 * (HOPELESS + 2), 40):
            one.look(float(now))
            assert one.started is not None
            fill(disk)
            one.started.process.kill()
            one.started.process.wait(20)
            one.look(now + 4.0)
            free(disk)
    assert sum("ended with exit code -9" in line for line in told) == HOPELESS + 2
