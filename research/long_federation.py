"""A federation of five real sites for 200 rounds: what does it live through, and is anything lost?

    python -m research.long_federation docs/results/long-federation.json --old COMMIT

It begins with the release of an older commit, as a wheel. On the way the coordinator and then the
sites are upgraded, twice; a setting is amended; a fifth site becomes a member; the coordinator's
disk is lost and restored from a backup; one site is away for half of the rounds. Everything is
started by its own command, with TLS and node keys; the sites have no model (tests/toys).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedse.flower.ops.commands import QUIET
from fedse.ledger.verifying import verify_ledger
from fedse.ports import free_ports
from fedse.store.run import committed_in
from fedse.store.run_folder import open_run
from scripts.cpu_time import children_cpu_seconds
from tests.system.field import KILL_SWITCH, LIGHT, REPOSITORY, SHORT_ROUND, maze_clients
from tests.system.upgrade import later_release, release_of

FIRST, NEW, AWAY = ("alpha", "beta", "gamma", "delta"), "epsilon", "delta"
ALL = (*FIRST, NEW)
SETTINGS = """[run]
name = "long"
rounds = {rounds}
[model]
rank = 2
[eval]
episodes = 0
[aggregate]
deadline = 60.0
min_clients = 2
{short}
{clients}"""


class Life:
    """The folders of a federation, and what of it runs, each with its release."""

    def __init__(
        self, path: Path, releases: dict[str, Path], rounds: int, sites: Sequence[str] = FIRST
    ) -> None:
        """`sites` are the members at the beginning; all begin with the release "old"."""
        self.path, self.releases, self.rounds, self.sites = path, releases, rounds, sites
        self.folder, self.key = path / "federation", path / "backup.key"
        self.runs = dict.fromkeys(("server", *ALL), "old")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.story: list[dict[str, Any]] = []

    @property
    def committed(self) -> int:
        return committed_in(self.folder / "run")

    def home(self, site: str) -> Path:
        return self.path / site

    def environment(self, who: str) -> dict[str, str]:
        found = [KILL_SWITCH, self.releases[self.runs[who]], REPOSITORY]
        return {**os.environ, **QUIET, **LIGHT, "PYTHONPATH": ":".join(map(str, found))}

    def fedse(self, who: str, *arguments: str) -> str:
        """What the command printed, as that one's release has it."""
        line = [sys.executable, "-m", "fedse", *arguments]
        where = self.environment(who)
        done = subprocess.run(line, cwd=self.path, env=where, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.decode()[-800:]}")
        return done.stdout.decode()

    def check_releases(self) -> None:
        """Whoever is given a release imports that one: python -m looks into its folder first."""
        for release, place in self.releases.items():
            self.runs["server"] = release
            line = [sys.executable, "-c", "import fedse; print(fedse.__file__)"]
            where = self.environment("server")
            found = subprocess.check_output(line, cwd=self.path, env=where, text=True)
            if not Path(found).is_relative_to(place):
                raise RuntimeError(f"release {release} of {place} is imported from {found}")
        self.runs["server"] = "old"

    def create(self) -> None:
        port, link = map(str, free_ports(2))
        text = SETTINGS.format(
            rounds=self.rounds, short=SHORT_ROUND, clients=maze_clients(self.sites)
        )
        (self.path / "long.toml").write_text(text)
        where = ["--out", str(self.folder), "--host", "localhost"]
        ports = ["--port", port, "--link-port", link]
        experiment = str(self.path / "long.toml")
        self.fedse("server", "federation", "create", experiment, *where, *ports)
        for site in self.sites:
            self.join(site)

    def join(self, site: str) -> None:
        there = ["--dir", str(self.folder)]
        self.fedse("server", "federation", "invite", site, *there)
        card = (self.folder / "federation.toml").read_text()
        key = next(line.split('"')[1] for line in card.splitlines() if "fingerprint" in line)
        offer = str(self.folder / "invites" / f"{site}.invite.json")
        own = ["--env", "maze", "--option", "prompt=short", "--fingerprint", key]
        self.fedse(site, "site", "join", offer, "--home", str(self.home(site)), *own)
        request = str(self.home(site) / "enrolment.json")
        self.fedse("server", "federation", "enrol", request, *there)

    def start(self, who: str) -> None:
        place = ["federation", "start", "--dir", str(self.folder), "--wait", "300", "--json"]
        line = place if who == "server" else ["site", "start", "--home", str(self.home(who))]
        with (self.path / f"{who}.log").open("ab") as log:
            self.running[who] = subprocess.Popen(
                [sys.executable, "-m", "fedse", *line],
                cwd=self.path,
                env=self.environment(who),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self, who: str) -> None:
        process = self.running.pop(who)
        process.terminate()
        process.wait(120)

    def upgrade(self, who: str, release: str) -> None:
        self.stop(who)
        self.runs[who] = release
        self.start(who)

    def wait(self, round: int) -> None:
        while self.committed < round:
            server = self.running.get("server")
            if server is None or server.poll() is not None:
                raise RuntimeError(
                    f"the server ended: {(self.path / 'server.log').read_text()[-2000:]}"
                )
            time.sleep(1.0)

    def tell(self, what: str) -> None:
        self.story.append({"committed": self.committed, "what": what})
        print(f"round {self.committed}: {what}", file=sys.stderr, flush=True)

    def set_rules(self, site: str, **rules: str) -> None:
        """The site's owner has changed these rules of policy.toml."""
        file = self.home(site) / "policy.toml"
        kept = [line for line in file.read_text().splitlines() if line.split(" =")[0] not in rules]
        table = kept.index("[audit]") if "[audit]" in kept else len(kept)
        added = [f"{name} = {value}" for name, value in rules.items()]
        file.write_text("\n".join([*kept[:table], *added, *kept[table:]]) + "\n")


def live(life: Life) -> None:
    """All that is to happen has happened, and all rounds are committed."""
    at: Callable[[float], int] = lambda share: round(share * life.rounds)  # noqa: E731
    life.check_releases()
    life.create()
    for who in (*FIRST, "server"):
        life.start(who)
    life.wait(at(0.1))
    life.upgrade("server", "now")
    life.tell("the coordinator is upgraded, the sites are not")
    life.wait(at(0.15))
    members = json.dumps([sorted(ALL)])
    for site in FIRST:
        life.upgrade(site, "now")
        bounds = f'{{ "train.lr" = [1e-5, 1e-2], members = {members} }}'
        life.set_rules(site, accept=bounds, max_rounds=str(2 * life.rounds))
    life.tell("the sites are upgraded")
    life.wait(at(0.2))
    amend(life, "--set", "train.lr=0.002")
    life.wait(at(0.25))
    life.stop(AWAY)
    life.tell(f"{AWAY} goes away")
    life.wait(at(0.3))
    amend(life, "--add", NEW)
    life.runs[NEW] = "now"
    life.join(NEW)
    life.start(NEW)
    life.wait(at(0.5))
    lose_disk(life, until=at(0.55))
    life.wait(at(0.6))
    for who in ("server", *(site for site in ALL if site != AWAY)):
        life.upgrade(who, "later")
    life.tell("all are upgraded again")
    life.wait(at(0.75))
    life.runs[AWAY] = "later"
    life.start(AWAY)
    life.tell(f"{AWAY} is back")
    life.wait(life.rounds)
    life.running.pop("server").wait(300)


def amend(life: Life, *change: str) -> None:
    where = ["--dir", str(life.folder), "--reason", "a test"]
    told = life.fedse("server", "federation", "amend", *change, *where)
    life.tell(told.splitlines()[0])


def lose_disk(life: Life, *, until: int) -> None:
    """The coordinator's folder is gone some rounds after a backup, and is as that backup was."""
    subprocess.run(["age-keygen", "-o", str(life.key)], check=True, capture_output=True)
    public = next(
        line.split()[-1] for line in life.key.read_text().splitlines() if "public key" in line
    )
    file = life.path / "federation.age"
    life.fedse("server", "backup", str(life.folder), str(file), "--key", public)
    life.tell("the coordinator is backed up")
    life.wait(until)
    life.stop("server")
    life.tell("the coordinator's disk is lost")
    begun = time.monotonic()
    shutil.rmtree(life.folder)
    restore = [str(life.folder), str(file), "--key", str(life.key), "--restore"]
    life.fedse("server", "backup", *restore)
    for site in ALL:
        life.set_rules(site, earlier_rounds="true")
    life.start("server")
    back = life.committed
    life.wait(back + 1)
    seconds = round(time.monotonic() - begun, 1)
    life.tell(f"restored and at work again after {seconds} s, in the round of the backup")


def outcome(life: Life) -> dict[str, Any]:
    """What was lost, by the ledgers and the buffers."""
    folders = {"coordinator": life.folder / "run", **{site: life.home(site) for site in ALL}}
    verdicts = {name: verify_ledger(folder / "ledger.jsonl") for name, folder in folders.items()}
    with closing(open_run(life.folder / "run")) as run:
        results = list(run.results())
        agreements = run.config.train.lr, sorted(run.config.members)
    told = {
        site: {e.facts["round"] for e in verdicts[site].entries if e.kind == "answered"}
        for site in ALL
    }
    votes = [(one.index, site) for one in results for site in one.voters]
    return {
        "rounds": [one.index for one in results] == [*range(1, life.rounds + 1)],
        "ledgers": {name: str(one.finding or "sound") for name, one in verdicts.items()},
        "votes": {site: sum(who == site for _, who in votes) for site in ALL},
        "votes_without_a_line": sum(number not in told[site] for number, site in votes),
        "left_out": sorted({f"{f.client}: {f.text}" for one in results for f in one.excluded}),
        "at_the_end": {"train.lr": agreements[0], "members": agreements[1]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--old", required=True, help="the commit of the release it begins with")
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedse-long-") as folder:
        path = Path(folder)
        releases = {
            "old": release_of(args.old, path / "old"),
            "now": REPOSITORY,
            "later": later_release(path / "later"),
        }
        life = Life(path, releases, args.rounds)
        begun = time.monotonic()
        try:
            live(life)
            found = outcome(life)
        finally:
            for who in list(life.running):
                life.stop(who)
    cost = {
        "wall_seconds": round(time.monotonic() - begun),
        "cpu_seconds": round(children_cpu_seconds()),
    }
    whole = {"rounds": args.rounds, "old": args.old, **cost, "found": found, "story": life.story}
    args.result.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
