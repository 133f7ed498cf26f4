"""A real federation on this machine: its own commands in their own processes, TLS and keys on.

Everything is started as its user would start it: `fedse federation start` and `fedse site start`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedse.committed import RoundResult
from fedse.config.agreement import ELSEWHERE
from fedse.config.file import parse_config
from fedse.config.schema import ClientSection
from fedse.drivers.run import run_local
from fedse.federation import folder
from fedse.federation.folder import Card, Federation
from fedse.federation.home import agreed_config, join
from fedse.federation.invite import read_invite
from fedse.federation.rotation import read_either
from fedse.flower.messages.bundle import own_digest
from fedse.flower.ops.commands import QUIET
from fedse.ports import free_ports
from fedse.site.open import open_site
from fedse.store.run_folder import create_run, open_run
from tests.toys.light_site import open_light_site

REPOSITORY = Path(__file__).parents[2]
KILL_SWITCH = Path(__file__).parent / "kill_switch"
SWITCHED = os.pathsep.join([str(KILL_SWITCH), str(REPOSITORY)])
"""For PYTHONPATH: with it, the switch is armed by its variables."""
LIGHT = {"FEDSE_LIGHT_SITES": "1"}
"""For the environment of `fedse site start`, beside SWITCHED: its worker has no model."""


def short_games(episodes: int) -> str:
    """Sections of an experiment: the least that a site plays and keeps in a round."""
    return f"""[rollout]
episodes = {episodes}
batch = 2
context = 256
new_tokens = 4
max_turns = 2
[buffer]
demonstrations = 2
"""


SHORT_ROUND = f"""{short_games(4)}
[train]
epochs = 1
max_steps = 1
lr = 1e-3
"""


def maze_clients(sites: Iterable[str]) -> str:
    """The last sections of an experiment: each of these sites plays in the maze."""
    client = '[[clients]]\nname = "{}"\nenv = "maze"\noptions = {{ prompt = "short" }}\n'
    return "".join(map(client.format, sites))


class Field:
    """A federation's folder, its sites' homes, and what of it runs."""

    def __init__(
        self,
        path: Path,
        experiment: str,
        *,
        light: bool = False,
        disk: Path | None = None,
        create: Callable[..., Federation] = folder.create,
        host: str = "localhost",
    ) -> None:
        """`light` sites have no model; `disk` is where the federation lies, if not in `path`."""
        self.light, self.path, self.plan = light, path, path / "plan"
        self.plan.mkdir(parents=True)
        self.config = parse_config(experiment, "experiment")
        port, link = free_ports(2)
        card = Card(
            name=self.config.run.name, host=host, port=port, link_port=link,
            bundle=own_digest(), fingerprint="",
        )  # fmt: skip
        now = datetime.now(UTC)
        self.federation: Federation = create(
            (disk or path) / "federation",
            self.config,
            given=experiment,
            card=card,
            now=now,
            clock=time.time,
        )
        self.sites = [c.name for c in self.config.clients if c.env != ELSEWHERE]
        for site in self.sites:
            self.enrol(site, self.config.client(site))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.through: dict[str, list[str]] = {}
        """By starter, what its command comes after."""
        self.armed: dict[str, str] = {}
        """More variables for all that is started."""
        self.begun = 0.0
        """When the first process was started, in seconds since 1970."""

    def enrol(self, site: str, client: ClientSection) -> None:
        """The site is on the list and has a home; it plays where `client` does."""
        now = int(time.time())
        file = folder.invite(self.federation, site, nonce=site * 8, now=now, hours=1)
        offered = read_invite(file, trusted=self.federation.card.fingerprint, now=now)
        agreed = agreed_config(offered, env=client.env, options=client.options, base=None)
        made = join(offered, agreed, self.home(site), bundle=own_digest())
        folder.enrol(self.federation, read_either(made.path / "enrolment.json"), now=now)

    def home(self, site: str) -> Path:
        return self.path / site

    def start_server(self, *options: str) -> None:
        where = ["--dir", str(self.federation.path), "--wait", "120", "--json", *options]
        self._start("server", ["federation", "start", *where])

    def start_site(self, site: str) -> None:
        self._start(site, ["site", "start", "--home", str(self.home(site))])

    def _start(self, name: str, arguments: list[str]) -> None:
        self.begun = self.begun or time.time()
        with (self.path / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*self.through.get(name, ()), sys.executable, "-m", "fedse", *arguments],
                env=self.environment(name),
                cwd=self.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def environment(self, name: str) -> Mapping[str, str]:
        """Of the starter of that name, and all it starts."""
        armed = {"FEDSE_KILL_PLAN": str(self.plan)} | (LIGHT if self.light else {})
        return {**os.environ, **QUIET, "PYTHONPATH": SWITCHED, **armed, **self.armed}

    def order(self, who: str, event: str, round: int) -> None:
        """`who` will be dead when it has said `event` in this round."""
        (self.plan / f"{who}@{event}@{round}").touch()

    def hold(self, who: str, event: str, round: int) -> Callable[[], bool]:
        """`who` will wait when it has said `event` in this round; tells whether it does."""
        order = self.plan / f"{who}@{event}@{round}@hold"
        order.touch()
        return order.with_name(order.name.replace("@hold", "@held")).exists

    def let_go(self, who: str = "*", round: int | str = "*") -> None:
        """Whoever is held goes on, or `who` does, in any round or in `round`."""
        for held in self.plan.glob(f"{who}@*@{round}@held"):
            held.unlink()

    def killed(self) -> list[dict[str, Any]]:
        """The kills that happened, in their order."""
        return lines(self.plan / "killed.jsonl")

    def kill(self, owner: str, name: str) -> float:
        """The process `name` that the server or a site keeps is dead; when that was."""
        for process in self.roll(owner):
            if process["name"] == name:
                os.kill(process["pid"], signal.SIGKILL)
                return time.time()
        raise AssertionError(f"{owner} has no {name} running")

    def roll(self, owner: str) -> list[dict[str, Any]]:
        """What the server or a site has running, by its own record."""
        logs = (self.federation.path if owner == "server" else self.home(owner)) / "logs"
        found = [one for file in logs.glob("running-*.json") if (one := _read_if_there(file))]
        return [process for text in found for process in json.loads(text)["running"]]

    def kill_starter(self, name: str) -> float:
        """`fedse federation start` or `fedse site start` is dead; what it had started is not."""
        starter = self.running.pop(name)
        starter.kill()
        starter.wait()
        return time.time()

    def events(self) -> list[dict[str, Any]]:
        return lines(self.federation.run / "events.jsonl")

    def results(self) -> list[RoundResult]:
        with closing(open_run(self.federation.run, clock=time.time)) as run:
            return list(run.results())

    def wait(self, seconds: float, *, until: Callable[[], bool]) -> None:
        """The condition came true in time; the last lines of all logs are told if it did not."""
        ends = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < ends, f"waited {seconds:.0f} s\n{self.last_words()}"
            time.sleep(0.1)

    def wait_for_end(self, seconds: float) -> int:
        """Exit code of the server, which has committed all rounds or given up."""
        ends = time.monotonic() + seconds
        while (code := self.running["server"].poll()) is None:
            assert time.monotonic() < ends, f"waited {seconds:.0f} s\n{self.last_words()}"
            time.sleep(0.2)
        return code

    def last_words(self) -> str:
        logs = [self.path / f"{name}.log" for name in ("server", *self.sites)]
        found = [log for log in logs if log.exists()]
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in found)

    def end(self) -> dict[str, int]:
        """Nothing that was started here runs; exit codes of what did, told to stop by SIGTERM."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        codes = {name: process.wait(90) for name, process in self.running.items()}
        self.running.clear()
        return codes


@contextmanager
def field(path: Path, experiment: str, *, light: bool = False) -> Iterator[Field]:
    """A federation whose sites are enrolled; nothing runs yet, and nothing does afterwards."""
    made = Field(path, experiment, light=light)
    try:
        yield made
    finally:
        made.end()


def undisturbed(
    path: Path, experiment: str, *, light: bool = False
) -> tuple[list[RoundResult], Path]:
    """What the local driver commits with the same settings, and the folder it did it in."""
    config, now = parse_config(experiment, "experiment"), datetime.now(UTC)
    local = create_run(path, config, given=experiment, name="local", now=now, clock=time.time)
    with closing(local):
        run_local(local, open_site=open_light_site if light else open_site)
        results = list(local.results())
        assert len({r.after for r in results}) == len(results), "every round changed the adapter"
        return results, local.path


def lines(file: Path) -> list[dict[str, Any]]:
    """The records of a file to which lines are added; the last may still be being written."""
    if not file.exists():
        return []
    text = file.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _read_if_there(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
