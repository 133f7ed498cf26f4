"""A process whose clock can be set while it runs: its dates change, its durations do not."""

import subprocess
from pathlib import Path

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
# Python sleeps until a time on the monotonic clock. libfaketime 0.9.10 takes that time for a date,
# and the kernel refuses the result, so every sleep would fail with "Invalid argument".
SLEEP = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""


def preloaded(clock: Path, folder: Path) -> dict[str, str]:
    """The environment of a process whose clock is wrong by the seconds in `clock`, as in +60."""
    sleep = folder / "real_sleep.so"
    if not sleep.exists():
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(sleep)]
        subprocess.run(command, input=SLEEP, text=True, check=True)
    return {
        "LD_PRELOAD": f"{sleep}:{LIBRARY}",
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "2",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
