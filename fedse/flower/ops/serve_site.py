"""A site takes part: its worker and a SuperNode run until they are stopped.

The SuperNode speaks TLS, believes the federation's own authority only and proves itself with the
site's key; there is no way to start it without. It unpacks the agreed app bundle only, and gives
its tasks to processes of the same user only. One that ended is started again, and so is the worker;
no other process uses the same home meanwhile.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.adapters.base import spec_of
from fedse.federation.expiry import DailyWarning, site_warnings
from fedse.federation.heard import MANY_SITES
from fedse.federation.home import Home
from fedse.federation.line import FILE as LINE
from fedse.flower.ops.commands import environment, guarded_environment
from fedse.flower.ops.deployment import SitePlace, node_command, worker_command
from fedse.flower.ops.site_console import SiteConsole
from fedse.flower.ops.site_keys import SiteKeys
from fedse.flower.ops.supernode import IDLE, UNANSWERED
from fedse.flower.patches.bundle_guard import write_launchers
from fedse.outbound import proxy_to
from fedse.processes.group import Processes, Started
from fedse.processes.log_files import LogLimit
from fedse.processes.pulse import Sign, touched
from fedse.processes.restart import RestartingProcess, Tell
from fedse.processes.watchdog import SilenceWatch, Watchdog
from fedse.site.acting import engine_of
from fedse.site.answers import AnsweredRounds
from fedse.store.lock import locked
from fedse.store.space import RoomWatch, answer_room

LOOK_SECONDS = 0.5
LIKELY = " (is the server down, or is this site not enrolled yet, or revoked?)"
WORDS = {
    UNANSWERED: " (it was asked and nothing came: did something here end or hold the app?)",
    IDLE: " (it asked for no work for long: did it hang, or is the server away?)",
}
# Flower requires the number of a port; nothing listens at it.
NO_PORT = 1
NO_PROGRESS = "has made no progress with its work"
NOT_READY = "was not ready and wrote nothing to its log (watchdog.start)"


def serve_site(
    home: Home, *, tell: Tell, show: Tell = lambda now: None, seconds: float | None = None
) -> None:
    """Takes part until interrupted, or for `seconds`; nothing of it runs afterwards.

    `tell` gets every line of the console, `show` what is true now.
    """
    again = f"fedse site start --home {home.path}"
    busy = f"another `fedse site start` is running from {home.path}"
    room = RoomWatch(answer_room(home.path, spec_of(home.config).nbytes), tell=tell)
    room.wait()
    with (
        locked(home.path, busy=busy, hint=f"stop that one (Ctrl-C, or its service), then: {again}"),
        # Before the worker's environment is made: it tells where the engine is.
        engine_of(home.config).ready(home.path / "engine", tell),
        TemporaryDirectory(prefix="fedse-") as sockets,
        Processes(home.path / "logs", environment(home.path / "flower")) as processes,
    ):
        if left := processes.end_orphans():
            tell(f"ended what an earlier start had left running: {', '.join(left)}")
        socket = Path(sockets) / "site.sock"
        keys = SiteKeys(home, tell, clock=time.time)
        worker, node = kept_processes(home, socket, processes, keys, room, tell)
        tell(f"starting the worker; what it does is in {processes.logs}/worker*.log")
        _wait_for(socket, worker)
        tell(f"worker ready; {home.card.site} connects to {home.card.server}{_way(home)}")
        expiry = DailyWarning(partial(site_warnings, home), tell)
        log_limit = LogLimit(processes.logs)
        console = SiteConsole(home, tell=tell, show=show)
        answers = AnsweredRounds(home.path, home.config, home.card.site, tell=tell)

        def meanwhile() -> None:
            expiry.look(time.time())
            log_limit.look(time.monotonic())
            room.lacking(time.monotonic())
            console.look(time.monotonic())
            answers.look(time.monotonic())
            keys.look()

        keep_running([worker, node], seconds, meanwhile=meanwhile)


def _way(home: Home) -> str:
    """Through which proxy the node goes, if through any."""
    proxy = proxy_to(home.card.server, os.environ)
    return f" through the proxy {proxy}" if proxy else ""


def _wait_for(socket: Path, worker: RestartingProcess) -> None:
    """The worker listens at `socket`; it was looked after until it did."""
    while not socket.exists():
        worker.look(time.monotonic())
        time.sleep(LOOK_SECONDS)


def kept_processes(
    home: Home, socket: Path, processes: Processes, keys: SiteKeys, room: RoomWatch, tell: Tell
) -> tuple[RestartingProcess, RestartingProcess]:
    """The worker and the node of a site, neither of them started yet."""
    start_worker, start_node = starts(home, socket, processes, keys)
    worker = RestartingProcess(
        processes,
        start_worker,
        tell=tell,
        ready=socket.exists,
        hint=f"fix what it says, then: fedse site start --home {home.path}",
        lacking=room.lacking,
        watchdog=_watchdog(
            home,
            SilenceWatch(_opening(socket, processes.logs), home.config.watchdog.start, NOT_READY),
            SilenceWatch(touched(pulse_of(socket)), _silence(home), NO_PROGRESS),
        ),
    )
    node = RestartingProcess(
        processes,
        start_node,
        tell=tell,
        likely=likely_cause,
        lacking=room.lacking,
        watchdog=_watchdog(home),
    )
    return worker, node


def _watchdog(home: Home, *watches: SilenceWatch) -> Watchdog:
    return Watchdog(stopped=home.config.watchdog.stopped, others=watches)


def _silence(home: Home) -> float:
    return home.config.watchdog.silence(home.config.aggregate.deadline)


def _opening(socket: Path, logs: Path) -> Sign:
    """Changes with every line that a worker writes before it listens at `socket`."""

    def sign() -> object:
        if socket.exists():
            return None
        return max((log.stat().st_mtime_ns for log in logs.glob("worker*.log")), default=0)

    return sign


def pulse_of(socket: Path) -> Path:
    """Where the worker that listens at `socket` shows its progress."""
    return socket.with_name("worker.pulse")


def likely_cause(code: int) -> str:
    """Why a node ended; a negative code is the signal that ended it."""
    if code in WORDS:
        return WORDS[code]
    return LIKELY if code > 0 else ""


def keep_running(
    all_kept: Sequence[RestartingProcess],
    seconds: float | None,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """They run, each started again when it ended, for `seconds` or until an interrupt."""
    ends = None if seconds is None else time.monotonic() + seconds
    while ends is None or time.monotonic() < ends:
        for kept in all_kept:
            kept.look(time.monotonic())
        meanwhile()
        time.sleep(LOOK_SECONDS)


def starts(
    home: Home, socket: Path, processes: Processes, keys: SiteKeys
) -> tuple[Callable[[], Started], Callable[[], Started]]:
    """How the worker and how the node of a site are started, and started again."""

    def start_worker() -> Started:
        # One that was ready and died was at work, or would be tried again for nothing.
        when = "now" if socket.exists() else "later"
        # One that was killed leaves its socket; from here on a socket means a worker is ready.
        socket.unlink(missing_ok=True)
        pulse_of(socket).unlink(missing_ok=True)
        desk = SitePlace(home.card.site, home.path, socket, 0)
        command = worker_command(home.path / "experiment.toml", desk)
        own = ["--policy", str(home.policy), "--own-settings", str(home.path / "site.toml")]
        more = ["--pulse", str(pulse_of(socket)), "--open", when]
        return processes.start("worker", [*command, *own, *more])

    def start_node() -> Started:
        runtime = socket.with_name("node.sock")
        desk = SitePlace(home.card.site, home.path, socket, NO_PORT, runtime)
        key, presence = keys.choose()
        # Of a node before this one.
        (home.path / LINE).unlink(missing_ok=True)
        many = len(home.config.clients) > MANY_SITES
        command = node_command(
            desk, home.card.server, home.authority, key, presence=presence, many_sites=many
        )
        env = node_environment(home, home.path / "flower", runtime)
        return processes.start("node", command, env=env)

    return start_worker, start_node


def node_environment(home: Home, flower: Path, runtime: Path) -> dict[str, str]:
    """Of the site's SuperNode, which unpacks the bundle the site agreed to and no other."""
    launchers = write_launchers(home.path / "bin", home.card.bundle, runtime)
    return guarded_environment(flower, launchers)
