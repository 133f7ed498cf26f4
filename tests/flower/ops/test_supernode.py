"""A SuperNode that no longer works no longer lives."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.flower.ops.supernode import BROKEN

# As in Flower's: a thread that is not a daemon keeps the process alive.
BESIDE = """
import os, subprocess, sys, threading, time
from fedse.flower.ops import supernode
threading.Thread(target=time.sleep, args=(3600,)).start()
"""
# The look for children that ended is taken when `look` is called, and only then.
BY_HAND = """
go, looked = threading.Semaphore(0), threading.Semaphore(0)
class ByHand:
    def sleep(seconds):
        looked.release()
        go.acquire()
supernode.time = ByHand
def look():
    looked.acquire()
    go.release()
    looked.acquire()
    looked.release()
def wait_for_end(child):
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
"""


def ended(code: str) -> tuple[int, str]:
    """Exit code and words of a process beside whose work another thread goes on for an hour."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE + code], capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stderr


def test_one_that_returns_ends():
    assert ended("supernode.end_with(lambda: None)") == (BROKEN, "the SuperNode stopped working\n")


def test_one_that_raises_ends_with_its_traceback():
    code, said = ended("def work(): raise OSError('database is locked')\nsupernode.end_with(work)")
    assert (code, said.splitlines()[-1]) == (BROKEN, "OSError: database is locked")


def test_one_whose_thread_dies_ends_at_once():
    code, said = ended("""
def beat(): raise RuntimeError("not known here")
def work():
    threading.Thread(target=beat, name="heartbeat").start()
    time.sleep(3600)
supernode.end_with(work)
""")
    assert code == BROKEN
    assert "RuntimeError: not known here" in said
    assert said.endswith("heartbeat broke, and with it the SuperNode\n")


def test_one_whose_superexec_dies_ends():
    code, said = ended(f"""{BY_HAND}
def work():
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"])
    wait_for_end(child)
    look()
    look()
    raise SystemExit(7)
supernode.end_with(work)
""")
    assert code == BROKEN
    assert said.endswith("ended, and with it the SuperNode\n")


def test_a_command_that_is_collected_ends_nothing():
    """Not even if it is seen after it has ended and before its parent collects it."""
    code, _ = ended(f"""{BY_HAND}
def work():
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", ""])
        wait_for_end(child)
        look()
        child.wait()
        look()
    raise SystemExit(7)
supernode.end_with(work)
""")
    assert code == 7


@pytest.mark.parametrize(("asked", "code"), [("0", 0), ("", 0), ("5", 5), ("'why'", BROKEN)])
def test_one_that_was_asked_to_end_keeps_its_code(asked: str, code: int):
    assert ended(f"def work(): raise SystemExit({asked})\nsupernode.end_with(work)")[0] == code


def test_flowers_own_arguments_reach_it_and_ours_does_not(tmp_path: Path):
    """Flower's own refusal of an option shows that it was Flower that read them."""
    module = [
        sys.executable,
        "-m",
        "fedse.flower.ops.supernode",
        "--presence",
        str(tmp_path / "node.id"),
    ]
    done = subprocess.run([*module, "--no-such"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "flower-supernode: error: unrecognized arguments: --no-such"
    )
