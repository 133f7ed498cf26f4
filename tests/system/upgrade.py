"""A federation whose members change to another release, one after another, while rounds go on.

Round by round: all run the one release; the coordinator runs the other; then one site does as well,
so that the sites differ; then the coordinator goes back. Whoever changes is stopped in the middle
of a round and started again from other files, in the same folders.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.ledger.verifying import verify_ledger
from tests.system.field import KILL_SWITCH, REPOSITORY, Field, undisturbed
from tests.system.kills import experiment

ROUNDS = 4
SITES = ("alpha", "beta")
EXPERIMENT = experiment(ROUNDS, SITES, min_clients=len(SITES))
CHANGES: Mapping[int, tuple[tuple[str, str], ...]] = {
    2: (("server", "new"),),
    3: (("beta", "new"),),
    4: (("server", "old"),),
}
"""Round -> who changes to which release in it."""
PATIENCE = 600.0


class Upgraded(NamedTuple):
    """How the rounds went."""

    digest_equal: bool
    """Every adapter is the one of the local driver, which nobody disturbed."""
    absent: int
    """Sites that a round went on without."""
    ledgers_sound: bool


class Releases(Field):
    """A field in which everybody runs the release that it was given."""

    def __init__(self, path: Path, releases: Mapping[str, Path]) -> None:
        super().__init__(path, EXPERIMENT, light=True)
        self._releases, self._runs = releases, dict.fromkeys(("server", *SITES), "old")

    def environment(self, name: str) -> Mapping[str, str]:
        path = [KILL_SWITCH, self._releases[self._runs[name]], REPOSITORY]
        return {**super().environment(name), "PYTHONPATH": ":".join(map(str, path))}

    def change(self, name: str, release: str) -> None:
        """Whoever has that name is stopped and runs the other release."""
        self.running[name].terminate()
        self.running.pop(name).wait(90)
        self._runs[name] = release
        self.start(name)

    def start(self, name: str) -> None:
        if name == "server":
            self.start_server()
        else:
            self.start_site(name)


def upgrade(path: Path, releases: Mapping[str, Path]) -> Upgraded:
    """What became of a federation with these two releases."""
    here = Releases(path / "field", releases)
    held = {round: here.hold(SITES[0], "train.started", round) for round in CHANGES}
    try:
        for name in ("server", *SITES):
            here.start(name)
        for round, changes in CHANGES.items():
            here.wait(PATIENCE, until=held[round])
            for name, release in changes:
                here.change(name, release)
            here.let_go()
        assert here.wait_for_end(PATIENCE) == 0, here.last_words()
        results = here.results()
    finally:
        here.end()
    local, _ = undisturbed(path / "local", EXPERIMENT, light=True)
    folders = [here.federation.run, *map(here.home, SITES)]
    return Upgraded(
        digest_equal=[one.after for one in results] == [one.after for one in local],
        absent=sum(len(one.absent) + len(one.excluded) for one in results),
        ledgers_sound=not any(verify_ledger(f / "ledger.jsonl").finding for f in folders),
    )


def later_release(folder: Path) -> Path:
    """This package with a higher version and a setting more, which no experiment sets yet."""
    shutil.copytree(REPOSITORY / "fedse", folder / "fedse", ignore=shutil.ignore_patterns("*.pyc"))
    _edit(folder / "fedse/_version.py", r'__version__ = ".*"', '__version__ = "99.0.0"')
    added = 'class RunSection(Section):\n    later: str = "as before"\n'
    _edit(folder / "fedse/config/schema.py", r"class RunSection\(Section\):\n", added)
    return folder


def _edit(file: Path, old: str, new: str) -> None:
    text, count = re.subn(old, new, file.read_text())
    assert count == 1, f"{file} has {count} times {old}"
    file.write_text(text)


def release_of(commit: str, folder: Path) -> Path:
    """The wheel of a commit is installed, alone, in the folder."""
    source, wheels = folder / "source", folder / "wheels"
    source.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], cwd=REPOSITORY, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(source)], check=True)
    (wheel,) = wheels.glob("*.whl")
    target = folder / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    return target
