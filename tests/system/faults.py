"""Faults that machines really have, on a real federation: full disks, hangs, clocks.

Each strikes one round, while a site waits in the middle of its work, so the round cannot be over.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.system.field import Field, undisturbed
from tests.system.kills import HELD, SITES, Matrix, account, experiment, said
from tests.system.outages import app_of
from tests.system.wrong_clock import preloaded
from tests.toys.small_disk import fill, free, small_disk

ROUND_SECONDS = 300.0
# In megabytes; beyond what a round needs free, for databases and logs.
SERVER_DISK, SITE_DISK = 96, 64
FULL_SITE = "gamma"
DAY_SECONDS = 86400


class Pace(NamedTuple):
    """How long faults last, and how soon they are noticed."""

    full: float = 20.0
    """Seconds a disk stays full."""
    stopped: float = 10.0
    progress: float = 60.0


class FaultField(Field):
    """A federation whose server and one of whose sites have small disks of their own."""

    def __init__(
        self, path: Path, text: str, pace: Pace, disks: Path, *, clocks: bool, light: bool
    ) -> None:
        self.disks, self.pace, self.clocks = disks, pace, clocks
        super().__init__(path, text, light=light, disk=disks / "server")
        for site in self.sites:
            file = self.home(site) / "site.toml"
            file.write_text(file.read_text() + watchdog_settings(pace))

    def home(self, site: str) -> Path:
        return self.disks / site if site == FULL_SITE else super().home(site)

    def clock_of(self, name: str) -> Path:
        """The file that says by how much the clock of a starter is wrong."""
        return self.path / f"{name}.clock"

    def environment(self, name: str) -> Mapping[str, str]:
        usual = super().environment(name)
        if not self.clocks:
            return usual
        self.clock_of(name).write_text("+0")
        return {**usual, **preloaded(self.clock_of(name), self.path)}

    def log(self, name: str) -> str:
        """What a starter has said."""
        return (self.path / f"{name}.log").read_text(errors="replace")


def watchdog_settings(pace: Pace) -> str:
    return f"\n[watchdog]\nstopped = {pace.stopped}\nprogress = {pace.progress}\n"


def stop(owner: str, name: str) -> Callable[[FaultField], object]:
    """A process is stopped by a signal, and nobody lets it go on; over when its owner notices."""

    def strike(here: FaultField) -> None:
        (process,) = (p for p in here.roll(owner) if p["name"] == name)
        before = len(here.log(owner))
        os.kill(process["pid"], signal.SIGSTOP)
        # A site without a model may have answered already, and the round would not wait for it.
        here.wait(ROUND_SECONDS, until=lambda: "is stopped for" in here.log(owner)[before:])

    return strike


def stop_app(here: FaultField) -> None:
    os.kill(app_of(here), signal.SIGSTOP)


def full(disk: str) -> Callable[[FaultField], object]:
    """A disk has no room for a while; over when its owner has noticed that it has again."""

    def strike(here: FaultField) -> None:
        before = len(here.log(disk))
        fill(here.disks / disk)
        here.let_go(HELD[0])
        time.sleep(here.pace.full)
        free(here.disks / disk)
        here.wait(ROUND_SECONDS, until=lambda: "has room again" in here.log(disk)[before:])

    return strike


def set_clock(name: str, days: int) -> Callable[[FaultField], object]:
    """The clock of a machine is wrong for a while, then it is right again."""

    def strike(here: FaultField) -> None:
        here.clock_of(name).write_text(f"{days * DAY_SECONDS:+d}")
        here.let_go(HELD[0])
        time.sleep(here.pace.full)
        here.clock_of(name).write_text("+0")

    return strike


def nothing(here: FaultField) -> None:
    """Whoever is held never goes on by itself."""


class Fault(NamedTuple):
    strike: Callable[[FaultField], object]
    tells: str
    """Which starter says something about it."""
    held: tuple[str, str] | None = None
    """Who hangs, and where, instead of being struck from outside."""


FAULTS: dict[str, Fault] = {
    "server's disk full": Fault(full("server"), "server"),
    "site's disk full": Fault(full(FULL_SITE), FULL_SITE),
    "worker stopped": Fault(stop("beta", "worker"), "beta"),
    "worker hangs in training": Fault(nothing, "beta", held=("beta", "train.started")),
    "SuperNode stopped": Fault(stop("beta", "node"), "beta"),
    "SuperLink stopped": Fault(stop("server", "superlink"), "server"),
    "SuperExec stopped": Fault(stop("server", "superexec"), "server"),
    "proxy stopped": Fault(stop("server", "nginx"), "server"),
    "round loop stopped": Fault(stop_app, "server"),
    "round loop hangs in merging": Fault(nothing, "server", held=("server", "aggregate.started")),
}
CLOCKS: dict[str, Fault] = {
    "site's clock a day ahead": Fault(set_clock("gamma", 1), "gamma"),
    "site's clock a day behind": Fault(set_clock("gamma", -1), "gamma"),
    "server's clock a day ahead": Fault(set_clock("server", 1), "server"),
}
ALL = {**FAULTS, **CLOCKS}


class Row(NamedTuple):
    """One fault and what it cost."""

    fault: str
    lasted: float
    """Seconds from the strike until it was over, where it was ended from outside; else 0."""
    back: float
    """Seconds from then on until the round was committed."""
    votes_lost: int
    """Sites without a vote in the round."""
    told: tuple[str, ...]
    """What the starter said, without paths of logs."""


class Faults(NamedTuple):
    rows: list[Row]
    matrix: Matrix


@contextmanager
def faulty_field(
    path: Path, text: str, pace: Pace, *, clocks: bool, light: bool
) -> Iterator[FaultField]:
    """A federation on small disks; nothing runs afterwards, and no disk is left."""
    disks = path / "disks"
    with ExitStack() as stack:
        for name, size in (("server", SERVER_DISK), (FULL_SITE, SITE_DISK)):
            stack.enter_context(small_disk(disks / name, size))
        here = FaultField(path / "field", text, pace, disks, clocks=clocks, light=light)
        try:
            yield here
        finally:
            here.end()


def run_faults(
    path: Path,
    names: Sequence[str],
    *,
    pace: Pace | None = None,
    light: bool = False,
    record: Callable[[Sequence[Row]], object] = lambda rows: None,
) -> Faults:
    """Each fault strikes a round of its own; the last round is left in peace.

    `record` is given what is known after each.
    """
    pace = pace or Pace()
    text = experiment(len(names) + 1) + watchdog_settings(pace)
    expected, local = undisturbed(path, text, light=light)
    rows: list[Row] = []
    clocks = bool({*names} & {*CLOCKS})
    with faulty_field(path, text, pace, clocks=clocks, light=light) as here:
        reached = [_arranged(here, name, round) for round, name in enumerate(names, 1)]
        for site in SITES:
            here.start_site(site)
        here.start_server()
        for round, (name, is_held) in enumerate(zip(names, reached, strict=True), 1):
            here.wait(ROUND_SECONDS * 2, until=is_held)
            rows.append(_struck(here, name, round))
            record(rows)
        code = here.wait_for_end(ROUND_SECONDS * 2)
        assert code == 0, here.last_words()
        assert set(here.end().values()) == {0}
        return Faults(rows, account(here, expected, local))


def _arranged(here: FaultField, name: str, round: int) -> Callable[[], bool]:
    """Who is to hang does, and the site that waits so that the round is not over; whether so."""
    waits = here.hold(*HELD, round)
    if (held := ALL[name].held) is None:
        return waits
    here.hold(*held, round)
    return waits


def _struck(here: FaultField, name: str, round: int) -> Row:
    fault = ALL[name]
    assert not said(here, "round.committed", round), "over before it was disturbed"
    before, began = len(here.log(fault.tells)), time.monotonic()
    fault.strike(here)
    over = time.monotonic()
    # Of this round only: the site may already be held in the next one.
    here.let_go(HELD[0], round)
    here.wait(ROUND_SECONDS, until=lambda: said(here, "round.committed", round))
    back = time.monotonic() - over
    lines = [line for line in here.log(fault.tells)[before:].splitlines() if line[:1] not in "{ "]
    (result,) = (r for r in here.results() if r.index == round)
    lost = len(result.excluded) + len(result.absent)
    lasted = over - began if over - began > 1 else 0.0
    return Row(name, round_to(lasted), round_to(back), lost, tuple(map(_plain, lines)))


def round_to(seconds: float) -> float:
    return round(seconds, 1)


def _plain(line: str) -> str:
    """Without folders, which are of this machine."""
    return " ".join(word.rpartition("/")[2] if "/" in word else word for word in line.split())


def told(rows: Sequence[Row], matrix: Matrix | None = None) -> str:
    """For a file: every fault and what it cost, and what the folders say afterwards."""
    found = matrix._asdict() if matrix else {}
    rest = {name: value for name, value in found.items() if name != "kills"}
    return json.dumps({"faults": [row._asdict() for row in rows], **rest}, indent=1) + "\n"
