"""Start processes, notice when one dies, end them all.

Every process leads a group of its own, so ending the group ends what it started; its output goes
to one file named after it. Nothing else is touched, except what an earlier owner of the same
logs had started and recorded before it was killed.
"""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fedse.errors import RunError, StoreError
from fedse.processes.log_files import new_log
from fedse.processes.orphans import Process, end_orphans, identify, write_process_list
from fedse.store.space import is_full
from fedse.waiting import wait_until

END_SECONDS = 15.0
LOOK_SECONDS = 0.2
# In which a process of ours that gets SIGUSR1 writes where each of its threads is.
TRACE_SECONDS = 0.5
LAST_LINES = 12


class Started(NamedTuple):
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path


class Processes:
    """What was started and runs; as a context manager it is all ended on the way out."""

    def __init__(self, logs: Path, env: Mapping[str, str]) -> None:
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.logs, self._env = logs, dict(env)
        self.running: list[Started] = []
        # Of its own: two owners may share a folder of logs, also in one process.
        self._roll = logs / f"running-{secrets.token_hex(8)}.json"
        self._identities: dict[subprocess.Popen[bytes], Process | None] = {}
        self._recorded = True

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> Started:
        """The command runs, its output in a new LOGS/name.log; `env` replaces the common one."""
        log = new_log(self.logs, name)
        # To append: the file may be shortened while it is written.
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=self._env if env is None else env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = Started(name, process, log)
        self.running.append(started)
        self._note()
        return started

    def succeed(self, commands: Mapping[str, Sequence[str]], *, seconds: float) -> list[Path]:
        """The commands, by name, ran side by side and exited with 0; their logs.

        All other processes must live meanwhile: the first that does not is named.
        """
        servants = list(self.running)
        started = [self.start(name, command) for name, command in commands.items()]
        ends = time.monotonic() + seconds
        for one in started:
            rest = ends - time.monotonic()
            ended = _poll(partial(_has_ended, one), rest, _alive(servants))
            if not ended:
                raise RunError(f"{one.name} did not end in {seconds:.0f} s{tail(one.log)}")
            self.running.remove(one)
            self._note()
            if one.process.returncode:
                code = one.process.returncode
                raise RunError(
                    f"{one.name} exited with {code}{tail(one.log)}", hint=f"less {one.log}"
                )
        return [one.log for one in started]

    def wait_for(self, what: str, ready: Callable[[], bool], *, seconds: float) -> None:
        """`ready` holds, and no process died in the meantime."""
        if not _poll(ready, seconds, _alive(self.running)):
            raise RunError(f"{what} was not ready after {seconds:.0f} s", hint=f"see {self.logs}")

    def collect(self, started: Started) -> int | None:
        """Its exit code if it has ended, and then nothing of its group runs; None = it lives."""
        code = started.process.poll()
        if code is not None:
            _signal_group(started, signal.SIGKILL)
            self.running.remove(started)
        if code is not None or not self._recorded:
            self._note()
        return code

    def kill(self, started: Started) -> None:
        """It and its group were killed; where it was before is in its log, if it could say so."""
        for sign, group in ((signal.SIGUSR1, False), (signal.SIGKILL, True)):
            if group:
                _signal_group(started, sign)
            else:
                started.process.send_signal(sign)
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(END_SECONDS if group else TRACE_SECONDS)

    def end_orphans(self) -> list[str]:
        """What an owner of the same logs that was killed had left does not run; its names."""
        return end_orphans(self.logs, seconds=END_SECONDS)

    def end(self) -> None:
        """Nothing that was started here runs any more, nor anything in its group."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for started in self.running:
                _signal_group(started, sign)
            ends = time.monotonic() + END_SECONDS
            for started in self.running:
                with suppress(subprocess.TimeoutExpired):
                    started.process.wait(max(0.0, ends - time.monotonic()))
        self.running.clear()
        self._note()

    def _note(self) -> None:
        """What runs is recorded, so that it can be ended if this process is killed.

        On a full disk the record stays as it was, until there is room at the next `collect`.
        """
        self._identities = {
            process: self._identities.get(process) or identify(name, process.pid)
            for name, process, _ in self.running
        }
        try:
            write_process_list(
                self._roll, [process for process in self._identities.values() if process]
            )
        except StoreError as error:
            if not is_full(error):
                raise
            self._recorded = False
        else:
            self._recorded = True


def _poll(ready: Callable[[], bool], seconds: float, check: Callable[[], None]) -> bool:
    """Whether `ready` came true in time; `check` was called each time it had not."""

    def is_ready() -> bool:
        if ready():
            return True
        check()
        return False

    return wait_until(is_ready, seconds=seconds, every=LOOK_SECONDS)


def _has_ended(started: Started) -> bool:
    return started.process.poll() is not None


def _alive(servants: Sequence[Started]) -> Callable[[], None]:
    """A check that names the first of `servants` that has ended."""

    def check() -> None:
        for started in servants:
            code = started.process.poll()
            if code is not None:
                raise RunError(
                    f"{started.name} ended with exit code {code}{tail(started.log)}",
                    hint=f"less {started.log}",
                )

    return check


def tail(log: Path) -> str:
    """The last lines of a log, each on a line of its own, as an error shows them."""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


def _signal_group(started: Started, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(started.process.pid, sign)
