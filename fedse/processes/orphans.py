"""Processes that outlived the one that started them: recorded while they run, ended later.

A process is identified by its pid, the boot of the machine and the time from that boot to its
start: the pid alone may belong to another process by now. Where the kernel gives no name to a
boot, nothing is written.
"""

import json
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from fedse.store.files import write_whole
from fedse.types import Record
from fedse.waiting import wait_until

ROLLS = "running-*.json"
LOOK_SECONDS = 0.1
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process(Record):
    """One process, distinct from every other that has or had its pid."""

    name: str
    pid: int
    born: str


class ProcessList(Record):
    """What one owner has running; every one of them leads a group of its own."""

    owner: Process
    running: tuple[Process, ...]


def born(pid: int) -> str | None:
    """When the process began: boot, and clock ticks since; None = it does not run."""
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        # Both times move when somebody sets the clock; what lies between them does not.
        since_boot = process.create_time() - psutil.boot_time()
        return f"{_BOOT.read_text().strip()} {round(since_boot * TICKS_PER_SECOND)}"
    return None


def identify(name: str, pid: int) -> Process | None:
    """The process as it can be recognised later; None = it does not run."""
    began = born(pid)
    return None if began is None else Process(name=name, pid=pid, born=began)


def lives(process: Process) -> bool:
    """It still runs, and its pid is still its own."""
    return born(process.pid) == process.born


def write_process_list(file: Path, running: Sequence[Process]) -> None:
    """`file` names the running processes of this one; with none of them it is gone."""
    owner = identify("owner", os.getpid())
    if owner is None or not running:
        file.unlink(missing_ok=True)
        return
    # A machine that stops ends them all, so this need not outlive it.
    write_whole(file, ProcessList(owner=owner, running=tuple(running)).model_dump_json().encode())


def names_running(logs: Path) -> set[str]:
    """The names of what the owners of `logs` that live have running."""
    rolls = [roll for file in logs.glob(ROLLS) if (roll := _read(file)) and lives(roll.owner)]
    return {process.name for roll in rolls for process in roll.running if lives(process)}


def end_orphans(logs: Path, *, seconds: float) -> list[str]:
    """Nothing on the lists in `logs` whose owner is gone runs any more; names of what did.

    Members of a group whose leader died as well cannot be identified for sure and are left alone.
    """
    ended: list[str] = []
    for file in sorted(logs.glob(ROLLS)):
        roll = _read(file)
        if roll is not None:
            if lives(roll.owner):
                continue
            left = [process for process in roll.running if lives(process)]
            _end(left, seconds)
            ended += [process.name for process in left]
        file.unlink(missing_ok=True)
    return ended


def _read(file: Path) -> ProcessList | None:
    with suppress(OSError, ValueError):
        return ProcessList.model_validate(json.loads(file.read_text()))
    return None


def _end(leaders: Iterable[Process], seconds: float) -> None:
    """Neither the leaders nor the present members of their groups run any more."""
    # A leader that lives keeps its group's number; members are looked up while it does.
    left = [member for leader in leaders for member in _group(leader)]
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            _send(process, sign)
        wait_until(lambda: not any(map(lives, left)), seconds=seconds, every=LOOK_SECONDS)


def _group(leader: Process) -> list[Process]:
    members = [pid for pid in psutil.pids() if pid != leader.pid and _group_of(pid) == leader.pid]
    processes = [identify(leader.name, pid) for pid in members]
    return [leader, *(member for member in processes if member is not None)]


def _group_of(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def _send(process: Process, sign: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        # Taken before the comparison: psutil signals no other process that got the pid since.
        target = psutil.Process(process.pid)
        if lives(process):
            target.send_signal(sign)
