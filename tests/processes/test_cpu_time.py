"""The CPU seconds of a tree of processes count everybody in it, also who has ended, once."""

import subprocess
import sys

import pytest

from tests.needs import needs

needs("psutil")

from fedse.processes.cpu_time import cpu_seconds

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
# One child is collected and one is not; both have ended when the parent says so.
PARENT = f"""
import os, subprocess, sys
burn = [sys.executable, "-c", {BURN!r}]
if "collected" in sys.argv:
    subprocess.run(burn)
if "left" in sys.argv:
    child = subprocess.Popen(burn)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
print("done", flush=True)
sys.stdin.read()
"""


def used(*children: str) -> float:
    command = [sys.executable, "-c", PARENT, *children]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        seconds = cpu_seconds(parent.pid)
        parent.communicate()
    assert cpu_seconds(parent.pid) == 0.0
    return seconds


@pytest.mark.parametrize("child", ["collected", "left"])
def test_a_child_that_has_ended_counts_once(child: str):
    more = used(child) - used()  # whole ticks of 10 ms
    assert 0.28 <= round(more, 2) < 0.6
