"""The server's side of a federation: SuperLink, SuperExec, proxy, and the sites it may know.

The SuperLink listens on the loopback address, with TLS and node authentication always on; the
proxy is what sites reach. Which keys the SuperLink knows follows from the enrolment list. Each of
these is started again when it ends, and so is the server's app.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fedse.errors import MachineError, RunError
from fedse.federation.expiry import DailyWarning, coordinator_warnings
from fedse.federation.folder import Federation
from fedse.federation.heard import FILE as HEARD
from fedse.federation.nginx import FILE as NGINX
from fedse.federation.nginx import listen_address
from fedse.federation.renewal import require_fitting_keys
from fedse.flower.ops.commands import command, environment, healthy
from fedse.flower.ops.node_list import register_enrolled
from fedse.flower.ops.read_again import ReadAgain
from fedse.flower.ops.resubmit import run_to_end
from fedse.flower.ops.serve_region import above_kept
from fedse.flower.ops.superlink import (
    CONNECTION,
    START_SECONDS,
    cause_in,
    submit_command,
    superexec_command,
    superlink_command,
    write_connection,
)
from fedse.flower.ops.watching import link_watchdog, loop_watchdog, plain_watchdog, room_of
from fedse.ports import why_not_free
from fedse.processes.group import Processes, Started, tail
from fedse.processes.log_files import LogLimit
from fedse.processes.restart import RestartingProcess, Tell
from fedse.processes.watchdog import Watchdog
from fedse.store.database import is_sound, set_aside
from fedse.store.lock import locked
from fedse.store.next_round import forget_stop
from fedse.waiting import wait_until

PROXY_SECONDS = 10.0
LOOK_SECONDS = 0.2


class Server:
    """What a federation's server has running; all of it is kept so."""

    def __init__(self, federation: Federation, processes: Processes, tell: Tell) -> None:
        self._federation, self._processes, self._tell = federation, processes, tell
        self.kept: list[RestartingProcess] = []
        self._superexec: RestartingProcess | None = None
        self._stopping: list[Started] = []
        self._submitted_at = (processes.logs, 0)
        self._settings: dict[str, str | float] = {"run-dir": str(federation.run)}
        self._read_again = ReadAgain(federation, tell)
        self._expiry = DailyWarning(partial(coordinator_warnings, federation), tell)
        self._log_limit = LogLimit(processes.logs)
        self._room = room_of(federation, tell)

    def lacks_room(self) -> bool:
        return self._room.lacking(time.monotonic())

    def keep(
        self,
        name: str,
        line: list[str],
        ready: Callable[[], bool] | None,
        seconds: float,
        *,
        mark: Path | None = None,
        watchdog: Watchdog | None = None,
    ) -> RestartingProcess:
        """`line` runs under `name`, is ready, and is started again whenever it ends.

        `mark` is a file that one before it may have left, and that would look like being ready.
        """

        def start() -> Started:
            if mark:
                mark.unlink(missing_ok=True)
            return self._processes.start(name, line)

        kept = RestartingProcess(
            self._processes,
            start,
            tell=self._tell,
            ready=ready,
            lacking=self._room.lacking,
            watchdog=watchdog or plain_watchdog(self._federation),
        )
        self.kept.append(kept)
        self._wait(name, ready or (lambda: True), seconds)
        return kept

    def keep_superexec(self) -> None:
        line = superexec_command(link_address(self._federation), self._federation.identity)
        watchdog = loop_watchdog(self._federation)
        self._superexec = self.keep("superexec", line, None, PROXY_SECONDS, watchdog=watchdog)

    def look(self) -> None:
        """Whatever ended runs again, or soon will."""
        for kept in self.kept:
            kept.look(time.monotonic())
        self._stopping = [s for s in self._stopping if self._processes.collect(s) is None]
        self._expiry.look(time.time())
        self._log_limit.look(time.monotonic())
        self._room.lacking(time.monotonic())
        self._read_again.look(self.kept)

    def submit(self) -> str:
        """The app was given to the SuperLink; the number of its run there."""
        line = submit_command(self._federation.path, self._settings)
        self._submitted_at = self._superexec_log()
        started = self._processes.start("run", [*line, "--format", "json"])
        try:
            code = self._code_of(started, START_SECONDS)
        except RunError:
            started.process.kill()
            raise
        match = re.search(r'"run-id":\s*"(\d+)"', started.log.read_text(errors="replace"))
        if code or match is None:
            raise RunError(f"the app could not be submitted{tail(started.log)}")
        return match[1]

    def _code_of(self, started: Started, seconds: float) -> int:
        """Its exit code; one that did not end in time was killed."""
        codes: list[int] = []

        def has_ended() -> bool:
            code = self._processes.collect(started)
            codes.extend([] if code is None else [code])
            return code is not None

        if not wait_until(has_ended, seconds=seconds, every=LOOK_SECONDS, meanwhile=self.look):
            started.process.kill()
            wait_until(has_ended, seconds=None, every=LOOK_SECONDS, meanwhile=self.look)
        return codes[0]

    def stop(self, number: str) -> None:
        """Flower was asked to stop it, which takes a few seconds; a new app may begin meanwhile."""
        line = [command("flwr"), "stop", number, CONNECTION]
        self._stopping.append(self._processes.start("stop", line))

    def cause(self) -> str:
        log, size = self._superexec_log()
        # The app's output is in the log of the SuperExec that ran it, after the submission.
        before, start = self._submitted_at
        # A log that was shortened since has no such place any more.
        return cause_in(log, start=start if log == before and start <= size else 0) if size else ""

    def _superexec_log(self) -> tuple[Path, int]:
        started = self._superexec.started if self._superexec else None
        if started is None:
            return self._processes.logs, 0
        return started.log, started.log.stat().st_size

    def run(self, *, wait: float) -> str:
        """All rounds are committed, or the run has stopped as asked; digest of its adapter."""
        self._settings["join-seconds"] = wait
        return run_to_end(self._federation.run, self, tell=self._tell)

    def _wait(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        def is_ready() -> bool:
            self.look()
            return ready()

        while not wait_until(is_ready, seconds=seconds, every=LOOK_SECONDS):
            if self.lacks_room():
                continue
            logs = self._processes.logs
            raise RunError(f"{name} was not ready after {seconds:.0f} s", hint=f"see {logs}")


@contextmanager
def serving(
    federation: Federation, *, proxy: bool, tell: Tell = lambda line: None
) -> Iterator[Server]:
    """The federation can be reached by its sites; nothing of it runs afterwards."""
    folder, address = federation.path, link_address(federation)
    nginx = shutil.which("nginx")
    if proxy and nginx is None:
        raise MachineError(
            "nginx is not installed here, and without it sites would reach the control routes",
            hint="apt-get install nginx-light; or run nginx elsewhere and give --no-proxy",
        )
    busy = f"another `fedse federation start` serves {folder}"
    stop = f"stop it (Ctrl-C, or its service), then: fedse federation start --dir {folder}"
    require_fitting_keys(federation)
    room_of(federation, tell).wait()
    with locked(folder, busy=busy, hint=stop), _processes(federation) as processes:
        # From here on `federation stop` finds this server; what was asked of one before is over.
        forget_stop(federation.run)
        if left := processes.end_orphans():
            tell(f"ended what an earlier start had left running: {', '.join(left)}")
        if healthy(address, federation.identity.ca):
            raise MachineError(
                f"a SuperLink of this federation already answers at {address}",
                hint="wait for it, or end it: ss -ltnp shows which process it is",
            )
        _require_ports(federation, proxy=proxy)
        write_connection(folder / "flower", address, federation.identity.ca)
        _set_aside_damaged(federation, tell)
        server = Server(federation, processes, tell)
        _start_superlink(federation, server)
        register_enrolled(federation, processes)
        if proxy and nginx:
            _start_proxy(federation, server, nginx)
        with above_kept(federation, processes, tell) as above:
            server.kept += above
            yield server


def _require_ports(federation: Federation, *, proxy: bool) -> None:
    """The ports of the SuperLink and of nginx are free."""
    card = federation.card
    create = "fedse federation create CONFIG --out NEW-FOLDER --host NAME"
    hint = "stop that process, or make the federation with another port: "
    wanted = {"SuperLink": ("127.0.0.1", card.link_port, f"{create} --link-port PORT")}
    if proxy:
        reached = listen_address(card.host)
        wanted["nginx"] = (reached, card.port, f"{create} --port PORT")
    for what, (host, port, again) in wanted.items():
        if why := why_not_free(host, port):
            raise MachineError(f"{what} cannot use port {port}: {why}", hint=hint + again)


def _set_aside_damaged(federation: Federation, tell: Tell) -> None:
    """A SuperLink's database that cannot be read is not used; all in it is made again."""
    database = federation.path / "superlink.db"
    if database.is_file() and not is_sound(database):
        aside = set_aside(database)
        tell(f"{database} was damaged and is now {aside.name}; the sites are registered again")


def _start_superlink(federation: Federation, server: Server) -> None:
    database, address = federation.path / "superlink.db", link_address(federation)
    options = ["--enable-supernode-auth", "--database", str(database)]
    heard = federation.path / HEARD
    line = superlink_command(address, options, federation.identity, federation.run, heard)
    server.keep(
        "superlink",
        line,
        lambda: healthy(address, federation.identity.ca),
        START_SECONDS,
        watchdog=link_watchdog(federation, address),
    )
    server.keep_superexec()


def _start_proxy(federation: Federation, server: Server, nginx: str) -> None:
    """nginx answers at the federation's port."""
    folder, pid = federation.path, federation.path / "nginx.pid"
    place = ["-p", f"{folder}/", "-c", str(folder / NGINX), "-e", "logs/nginx-error.log"]
    # nginx writes its number once it has its port.
    server.keep("nginx", [nginx, *place], pid.exists, PROXY_SECONDS, mark=pid)


def link_address(federation: Federation) -> str:
    return f"127.0.0.1:{federation.card.link_port}"


def _processes(federation: Federation) -> Processes:
    return Processes(federation.path / "logs", environment(federation.path / "flower"))


def sync_nodes(federation: Federation) -> bool:
    """A SuperLink that runs knows exactly the enrolled sites; False = none runs now."""
    if not healthy(link_address(federation), federation.identity.ca):
        return False
    with _processes(federation) as processes:
        register_enrolled(federation, processes)
    return True
