"""Start the processes of a federation, notice when one dies, end them all.

Every process leads a group of its own, so ending the group ends what it started; its output goes
to one file named after it. Nothing else is touched, except what an earlier owner of the same
logs had started and recorded before it was killed.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import httpx

from fedse.errors import MachineError, RunError
from fedse.flower.ops.orphans import Process, end_orphans, identify, write_process_list
from fedse.waiting import wait_until

# Flower needs each of these separately; without them it calls home or runs an installer.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
END_SECONDS = 15.0
LOOK_SECONDS = 0.2
LAST_LINES = 12
KEPT_LOGS = 20
# Below those that kernels give out, also for outgoing connections: nobody gets one by chance.
PORTS = range(20_000, 30_000)


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

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> Started:
        """The command runs, its output in a new LOGS/name.log; `env` replaces the common one."""
        log = _new_log(self.logs, name)
        with log.open("wb") as output:
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
            self._note()
        return code

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
        """What runs is recorded, so that it can be ended if this process is killed."""
        self._identities = {
            process: self._identities.get(process) or identify(name, process.pid)
            for name, process, _ in self.running
        }
        write_process_list(
            self._roll, [process for process in self._identities.values() if process]
        )


def environment(flower_home: Path) -> dict[str, str]:
    """What Flower's commands need: themselves on PATH, this fedse, their own home, silence."""
    bin_folder = str(Path(sys.executable).parent)
    package = str(Path(__file__).resolve().parents[3])
    given = os.environ
    return {
        **given,
        **QUIET,
        "FLWR_HOME": str(flower_home),
        "PATH": os.pathsep.join([bin_folder, *filter(None, [given.get("PATH")])]),
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [given.get("PYTHONPATH")])]),
    }


def command(name: str) -> str:
    """The path of one of Flower's commands in this Python's environment."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        raise MachineError(
            f"{name} is not installed beside {sys.executable}",
            hint="pip install 'fed-se[flower]'",
        )
    return path


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody uses; no caller gets them while this process lives.

    The UDP port of the same number is a mark for the others. It stays with this process to its end
    and is in the way of no server, which uses TCP.
    """
    ports = list(islice(filter(_take_port, PORTS), count))
    if len(ports) < count:
        raise MachineError(
            f"no {count} ports are free from {PORTS.start} to {PORTS.stop - 1}", hint="ss -ltnu"
        )
    return ports


def _take_port(port: int) -> bool:
    """Whether the port was free and is marked as ours from here on."""
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        mark.close()
        return False
    mark.detach()
    return True


def healthy(address: str, ca: Path | None) -> bool:
    """A SuperLink answers at `address`, with a certificate of `ca` if one is given."""
    url = f"{'https' if ca else 'http'}://{address}/health"
    # Without TLS nothing is verified; httpx would read all authorities for nothing.
    verify = ssl.create_default_context(cafile=ca) if ca else False
    try:
        answer = httpx.get(url, timeout=2, verify=verify, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


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


def _new_log(logs: Path, name: str) -> Path:
    """NAME.log, then NAME-2.log and so on; the logs of the last KEPT_LOGS processes are kept."""
    numbered = re.compile(rf"{re.escape(name)}(?:-(\d+))?\.log")
    logs_by_number = {
        int(m[1] or 1): f for f in logs.iterdir() if (m := numbered.fullmatch(f.name))
    }
    for number in sorted(logs_by_number)[: 1 - KEPT_LOGS]:
        logs_by_number[number].unlink(missing_ok=True)
    number = max(logs_by_number, default=0) + 1
    return logs / (f"{name}.log" if number == 1 else f"{name}-{number}.log")


def tail(log: Path) -> str:
    """The last lines of a log, each on a line of its own, as an error shows them."""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


def _signal_group(started: Started, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(started.process.pid, sign)
