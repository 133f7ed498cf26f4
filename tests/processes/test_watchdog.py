"""A process that gets nowhere is killed and started again; one that is only slow is left alone."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedse.config.hardware import WatchdogSection
from fedse.processes.group import Processes, Started
from fedse.processes.pulse import Pulse, touched
from fedse.processes.restart import RestartingProcess
from fedse.processes.watchdog import MOST_SECONDS, SilenceWatch, Watchdog, stopped_in

SLEEPS = "import time; time.sleep(60)"
# A thread waits for a lock that its own thread holds.
DEADLOCK = """
import faulthandler, signal, threading
faulthandler.register(signal.SIGUSR1, all_threads=True)
def wait_for_ever(lock=threading.Lock()):
    lock.acquire()
    lock.acquire()
print("up", flush=True)
wait_for_ever()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_the_file_is_there_while_there_is_work_and_is_touched_once_a_second_at_most(tmp_path: Path):
    now, file = [0.0], tmp_path / "pulse"
    pulse, sign = Pulse(file, clock=lambda: now[0]), touched(file)
    assert sign() is None
    with pulse.working():
        signs = set()
        for now[0] in (0.0, 0.5, 0.9, 1.0, 1.5, 2.0):
            pulse.beat()
            signs.add(sign())
            time.sleep(0.01)
        assert len(signs) == 3
    assert sign() is None
    pulse.beat()
    assert sign() is None, "a beat alone is no work"
    with pytest.raises(ValueError, match="work"), pulse.working():
        raise ValueError("work that fails is over, too")
    assert sign() is None


def test_where_no_file_can_be_made_the_work_goes_on(tmp_path: Path):
    pulse = Pulse(tmp_path / "none" / "pulse")
    with pulse.working():
        pulse.beat()


def looked(watch: SilenceWatch, times: range) -> list[str]:
    return [watch.problem(float(now)) for now in times]


def test_only_unbroken_silence_while_there_is_work_counts():
    sign: list[object] = [1]
    watch = SilenceWatch(lambda: sign[0], 30, "has made no progress")
    assert set(looked(watch, range(0, 30))) == {""}
    sign[0] = 2
    assert set(looked(watch, range(30, 60))) == {""}
    sign[0] = None
    assert set(looked(watch, range(60, 600))) == {""}, "there is no work"
    sign[0] = 2
    assert [line for line in looked(watch, range(600, 632)) if line] == [
        "has made no progress for 30 s",
        "has made no progress for 31 s",
    ]
    watch.reset()
    assert set(looked(watch, range(632, 662))) == {""}
    never = SilenceWatch(lambda: 1, 0, "")
    assert set(looked(never, range(0, 10**6, 1000))) == {""}


def test_the_time_in_which_nobody_looked_is_no_silence():
    """A machine that slept, or a starter that was stopped itself."""
    watch = SilenceWatch(lambda: 1, 60, "is silent")
    assert watch.problem(0.0) == watch.problem(86400.0) == ""
    assert watch.problem(86400.0 + 60 - MOST_SECONDS) == ""
    assert [watch.problem(86450.0 + 10 * i) for i in range(1, 5)][-1] == "is silent for 60 s"


def test_by_default_half_the_time_a_site_has_for_a_round_may_pass_in_silence():
    assert WatchdogSection().silence(3600.0) == 1800.0
    assert WatchdogSection().silence(60.0) == 120.0
    assert WatchdogSection(progress=0).silence(3600.0) == 0.0
    assert WatchdogSection(progress=20).silence(3600.0) == 20.0


def kept(processes: Processes, code: str, told: list[str], watchdog: Watchdog) -> RestartingProcess:
    def start() -> Started:
        return processes.start("worker", python(code))

    return RestartingProcess(processes, start, tell=told.append, watchdog=watchdog)


def test_a_process_that_is_stopped_is_replaced_after_its_time(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, SLEEPS, told, Watchdog(stopped=30))
        one.look(0.0)
        assert one.started is not None
        first = one.started.process
        os.kill(first.pid, signal.SIGSTOP)
        until(lambda: stopped_in(first.pid) == (first.pid,))
        for now in range(5, 35, 5):
            one.look(float(now))
            assert one.started is not None
        one.look(35.0)
        assert (one.started, first.returncode) == (None, -signal.SIGKILL)
        one.look(36.0)
        assert one.started is not None
        assert one.started.process.pid != first.pid
    assert told[0] == "worker is stopped for 30 s: it is killed and started again"
    assert told[1].startswith("worker ended with exit code -9: ")


def test_one_that_was_let_go_on_in_time_is_left_alone(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, SLEEPS, told, Watchdog(stopped=30))
        one.look(0.0)
        assert one.started is not None
        pid = one.started.process.pid
        for start in (0, 100):
            os.kill(pid, signal.SIGSTOP)
            until(lambda: stopped_in(pid))
            for now in range(start + 5, start + 30, 5):
                one.look(float(now))
            os.kill(pid, signal.SIGCONT)
            until(lambda: not stopped_in(pid))
            one.look(start + 40.0)
    assert told == []


def test_a_thread_that_waits_for_ever_is_ended_and_its_log_says_where_it_was(tmp_path: Path):
    told: list[str] = []
    watch = SilenceWatch(lambda: "the same", 20, "has made no progress with its work")
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, DEADLOCK, told, Watchdog(stopped=30, others=[watch]))
        one.look(0.0)
        assert one.started is not None
        log = one.started.log
        until(lambda: "up" in log.read_text())
        for now in range(1, 22):
            one.look(float(now))
        assert one.started is None
        assert "in wait_for_ever" in log.read_text()
    assert told[0].startswith("worker has made no progress with its work for 20 s")
