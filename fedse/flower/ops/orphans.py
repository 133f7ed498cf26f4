"""Processes that outlived whoever started them: written down while they run, ended later.

A process is known by its number and the kernel's time of its start: a number alone may have gone
to somebody else's process since. Where the kernel does not tell (no /proc), nothing is written.
"""

import json
import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fedse.errors import StoreError, boundary
from fedse.types import Record

ROLLS = "running-*.json"
LOOK_SECONDS = 0.1
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process(Record):
    """One process, told apart from every other that has or had its number."""

    name: str
    pid: int
    born: str


class ProcessList(Record):
    """What one owner has running; every one of them leads a group of its own."""

    owner: Process
    running: tuple[Process, ...]


def born(pid: int) -> str | None:
    """When the process began: boot, and clock ticks since; None = it does not run."""
    fields = _stat(pid)
    # proc(5): field 3 is the state, field 22 the start; counted here from field 3.
    if not fields or fields[0] in "ZX":
        return None
    boot = ""
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    return f"{boot} {fields[19]}"


def known(name: str, pid: int) -> Process | None:
    """The process as it can be recognised later; None = it does not run."""
    began = born(pid)
    return None if began is None else Process(name=name, pid=pid, born=began)


def lives(process: Process) -> bool:
    """It still runs, and its number is still its own."""
    return born(process.pid) == process.born


def write_process_list(file: Path, running: Sequence[Process]) -> None:
    """`file` names the running processes of this one; with none of them it is gone."""
    owner = known("owner", os.getpid())
    if owner is None or not running:
        file.unlink(missing_ok=True)
        return
    temporary = file.with_name(f".{file.name}")
    with boundary(StoreError, f"list of running processes {file}"):
        temporary.write_text(ProcessList(owner=owner, running=tuple(running)).model_dump_json())
        temporary.replace(file)


def end_orphans(logs: Path, *, seconds: float) -> list[str]:
    """Nothing on the lists in `logs` whose owner is gone runs any more; names of what did.

    Members of a group whose leader died as well are not known for sure and left alone.
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
    """Neither the leaders nor who is in their groups now runs any more."""
    # A leader that lives keeps its group's number; members are looked up while it does.
    left = [member for leader in leaders for member in _group(leader)]
    for sign in (signal.SIGTERM, signal.SIGKILL):
        ends = time.monotonic() + seconds
        for process in left:
            _send(process, sign)
        while any(map(lives, left)) and time.monotonic() < ends:
            time.sleep(LOOK_SECONDS)


def _group(leader: Process) -> list[Process]:
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    members = [pid for pid in numbers if _stat(pid)[2:3] == [str(leader.pid)]]
    found = [known(leader.name, pid) for pid in members if pid != leader.pid]
    return [leader, *(member for member in found if member is not None)]


def _send(process: Process, sign: signal.Signals) -> None:
    if lives(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, sign)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none for a process that is gone."""
    with suppress(OSError):
        # The second field, a name in brackets, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []
