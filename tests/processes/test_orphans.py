"""What a killed owner left running is ended by the next one; nobody else's process ever is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fedse.processes import group as processes
from fedse.processes import orphans
from fedse.processes.group import Processes
from fedse.processes.orphans import born, end_orphans, identify, lives, names_running
from tests.needs import lacking

if not orphans._BOOT.exists():
    lacking("this kernel gives no name to a boot")

OWNER = """
import os, sys, time
from pathlib import Path
from fedse.processes.group import Processes
running = Processes(Path(sys.argv[1]), os.environ)
child = running.start("worker", [sys.executable, "-c", sys.argv[2]])
while "up" not in child.log.read_text():
    time.sleep(0.05)
print(child.process.pid, flush=True)
time.sleep(60)
"""
FAMILY = """
import os, time
child = os.fork()
print("up" if child else "", flush=True)
time.sleep(60)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FAMILY


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    code = [sys.executable, "-c", "import time; time.sleep(60)"]
    other = subprocess.Popen(code, start_new_session=True)
    yield other
    other.kill()
    other.wait()


def left_by_a_killed_owner(logs: Path, code: str = FAMILY) -> int:
    command = [sys.executable, "-c", OWNER, str(logs), code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    return pid


def group(pid: int) -> list[int]:
    return [each for each in psutil.pids() if orphans._group_of(each) == pid and born(each)]


@pytest.mark.parametrize("code", [FAMILY, STUBBORN])
def test_a_whole_group_that_was_left_is_ended_and_forgotten(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "END_SECONDS", 1.0)
    pid = left_by_a_killed_owner(tmp_path, code)
    assert len(group(pid)) == 2
    assert names_running(tmp_path) == set()
    with Processes(tmp_path, os.environ) as running:
        assert running.end_orphans() == ["worker"]
        assert group(pid) == []
        assert running.end_orphans() == []
    assert list(tmp_path.glob("running-*")) == []


def test_a_number_that_went_to_another_process_is_not_signalled(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]"
):
    """The list of a dead owner names the stranger's number, with another time of start."""
    left = left_by_a_killed_owner(tmp_path)
    (roll,) = tmp_path.glob("running-*.json")
    said = json.loads(roll.read_text())
    (worker,) = said["running"]
    said["running"].append({**worker, "name": "node", "pid": stranger.pid})
    roll.write_text(json.dumps(said))
    assert end_orphans(tmp_path, seconds=5) == ["worker"]
    assert not group(left)
    time.sleep(0.2)
    assert stranger.poll() is None


@pytest.mark.parametrize("change", ["boot", "ticks"])
def test_another_boot_or_another_tick_is_another_process(
    stranger: "subprocess.Popen[bytes]", change: str
):
    found = identify("node", stranger.pid)
    assert found is not None
    assert lives(found)
    boot, ticks = found.born.split(" ")
    other = f"x {ticks}" if change == "boot" else f"{boot} {int(ticks) + 1}"
    assert not lives(found.model_copy(update={"born": other}))


def test_a_number_that_changed_hands_between_two_signals_is_not_signalled(
    stranger: "subprocess.Popen[bytes]",
):
    """An orphan ended at SIGTERM; before SIGKILL its number went to the stranger."""
    found = identify("node", stranger.pid)
    assert found is not None
    boot, ticks = found.born.split(" ")
    orphan = found.model_copy(update={"born": f"{boot} {int(ticks) - 1}"})
    orphans._send(orphan, signal.SIGKILL)
    time.sleep(0.2)
    assert stranger.poll() is None
    orphans._send(found, signal.SIGKILL)
    assert stranger.wait(10) == -signal.SIGKILL


def test_a_clock_that_is_set_makes_nobody_another_process(
    stranger: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
):
    """psutil tells wall-clock times; setting the clock moves them all."""
    found, boot = identify("node", stranger.pid), psutil.boot_time()
    began = psutil.Process(stranger.pid).create_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: boot + 3600)
    assert psutil.Process(stranger.pid).create_time() == began + 3600
    assert identify("node", stranger.pid) == found
    assert found is not None


def test_what_a_living_owner_runs_is_left_alone(tmp_path: Path):
    """A second owner of the same logs, in the same process or in another, ends nothing of it."""
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    with Processes(tmp_path, os.environ) as first:
        started = first.start("superlink", sleeps)
        with Processes(tmp_path, os.environ) as second:
            assert second.end_orphans() == []
            second.succeed({"register": [sys.executable, "-c", ""]}, seconds=20)
        code = "import sys, pathlib; from fedse.processes.orphans import end_orphans\n"
        code += "print(end_orphans(pathlib.Path(sys.argv[1]), seconds=1))"
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert done.stdout == "[]\n"
        assert started.process.poll() is None
        assert names_running(tmp_path) == {"superlink"}
        (roll,) = tmp_path.glob("running-*.json")
        assert [each["name"] for each in json.loads(roll.read_text())["running"]] == ["superlink"]
    assert list(tmp_path.glob("running-*")) == []


def test_a_zombie_does_not_live():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert born(child.pid) is None
    child.wait()


def test_a_list_that_cannot_be_read_is_forgotten(tmp_path: Path):
    (tmp_path / "running-00.json").write_text('{"owner": 3')
    assert end_orphans(tmp_path, seconds=1) == []
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_of_the_boot_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nothing could be told from a process of another boot."""
    monkeypatch.setattr(orphans, "_BOOT", tmp_path / "none")
    with Processes(tmp_path, os.environ) as running:
        running.start("worker", [sys.executable, "-c", "import time; time.sleep(60)"])
        assert [file.name for file in tmp_path.iterdir()] == ["worker.log"]
        assert running.end_orphans() == []


def test_ended_by_sigterm_first(tmp_path: Path):
    """It may say goodbye: SIGKILL comes only to what does not end."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    pid = left_by_a_killed_owner(tmp_path, code)
    assert end_orphans(tmp_path, seconds=10) == ["worker"]
    assert group(pid) == []
    assert "bye" in (tmp_path / "worker.log").read_text()
