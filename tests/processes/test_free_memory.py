"""What a process no longer uses is the operating system's."""

import ctypes
import subprocess
import sys

import pytest

from fedse.processes import free_memory

FREES = """
import ctypes
from pathlib import Path
from fedse.processes.free_memory import give_back

c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

# The last one is kept, so that what is before it stays in the heap.
blocks = [c.malloc(100_000) for _ in range(500)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    c.free(block)
before = megabytes()
give_back()
print(before - megabytes())
"""


def test_freed_memory_is_given_back():
    done = subprocess.run([sys.executable, "-c", FREES], capture_output=True, text=True, check=True)
    is_glibc = hasattr(ctypes.CDLL(None), "malloc_trim")
    assert (float(done.stdout) > 40) == is_glibc


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(free_memory.sys, "platform", "darwin")
    free_memory._trim.cache_clear()
    free_memory.give_back()
    free_memory._trim.cache_clear()
