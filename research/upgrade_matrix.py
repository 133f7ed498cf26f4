"""Do two releases work together in one federation, in every mixture, with the same adapters?

    python -m research.upgrade_matrix docs/results/upgrade-matrix.json --old COMMIT

Both releases are wheels, of COMMIT and of the present one. The federation is made by the older
release; its coordinator and its sites are stopped and started again from the other wheel while
rounds go on, forth and back. At the end an agreement is amended that one site is too old for. Then
runs that releases with older schemas began are opened and ended. Sites have no model (tests/toys).
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedse.committed import RoundResult
from fedse.config.file import parse_config
from fedse.drivers.run import run_local
from fedse.ledger.verifying import verify_ledger
from fedse.store.agreements import FOLDER
from fedse.store.run_folder import create_run, open_run
from research.long_federation import Life, amend
from tests.system.field import REPOSITORY
from tests.system.older_release import RELEASES, open_older
from tests.system.upgrade import release_of
from tests.toys.light_site import open_light_site

SITES = ("alpha", "beta", "gamma")
EACH = 2
"""Rounds with a mixture: the first may have begun before the change."""
MIXTURES: dict[str, dict[str, str]] = {
    "all are old": {},
    "new coordinator, old sites": {"server": "new"},
    "new coordinator, one new site": {"server": "new", "alpha": "new"},
    "old coordinator, one new site": {"alpha": "new"},
    "old coordinator, new sites": {"alpha": "new", "beta": "new", "gamma": "new"},
    "all are new": {"server": "new", "alpha": "new", "beta": "new", "gamma": "new"},
}
TOO_OLD = "an amendment that one site is too old for"
UPGRADED = "that site is upgraded and accepts"
BOUNDS = '{ "train.lr" = [1e-5, 1e-2] }'
ROUNDS = EACH * (len(MIXTURES) + 3)


def change(life: Life, wanted: dict[str, str]) -> None:
    """Everybody runs the release that is wanted of it; "old" if none is named."""
    for who in ("server", *SITES):
        release = wanted.get(who, "old")
        if who not in life.running:
            life.runs[who] = release
            life.start(who)
        elif life.runs[who] != release:
            life.upgrade(who, release)


def play(life: Life) -> dict[str, tuple[int, int]]:
    """The rounds of each row of the table, the first and the last."""
    life.create()
    rows = {}
    for name, wanted in MIXTURES.items():
        rows[name] = _passed(life, name, wanted)
    new, too_old = MIXTURES["all are new"], SITES[-1]
    for site in SITES[:-1]:  # an older release refuses a policy with rules that it does not know
        life.set_rules(site, accept=BOUNDS)
    change(life, {**new, too_old: "old"})
    amend(life, "--set", "train.lr=0.002")
    rows[TOO_OLD] = _passed(life, TOO_OLD, {**new, too_old: "old"})
    life.set_rules(too_old, accept=BOUNDS)
    rows[UPGRADED] = _passed(life, UPGRADED, new, rounds=life.rounds - life.committed)
    life.running.pop("server").wait(300)
    return rows


def _passed(life: Life, name: str, wanted: dict[str, str], rounds: int = EACH) -> tuple[int, int]:
    change(life, wanted)
    before = life.committed
    life.wait(before + rounds)
    life.tell(name)
    return before + 1, before + rounds


def undisturbed(life: Life, path: Path) -> list[str]:
    """The adapters of the local driver, with the same amendment."""
    text, now = (life.path / "long.toml").read_text(), datetime.now(UTC)
    config = parse_config(text, "long.toml")
    with closing(create_run(path, config, given=text, name="local", now=now, clock=time.time)) as r:
        shutil.copytree(life.folder / "run" / FOLDER, r.path / FOLDER)
        run_local(r, open_site=open_light_site)
        return [one.after for one in r.results()]


def table(
    rows: dict[str, tuple[int, int]], results: list[RoundResult], local: list[str]
) -> list[dict[str, Any]]:
    """A row for each mixture: did all take part, and are the adapters those of the local driver?"""
    found = []
    for name, (first, last) in rows.items():
        part = results[first - 1 : last]
        # Once a site was left out, the local driver does not do the same any more.
        whole = all(len(one.voters) == len(SITES) for one in results[:last])
        equal = [one.after for one in part] == local[first - 1 : last]
        found.append(
            {
                "mixture": name,
                "rounds": [first, last],
                "votes": [len(one.voters) for one in part],
                "left_out": sorted({f"{f.client}: {f.text}" for o in part for f in o.excluded}),
                "digests_equal": equal if whole else None,
            }
        )
    return found


def measure(path: Path, releases: dict[str, Path]) -> dict[str, Any]:
    life = Life(path, releases, ROUNDS, SITES)
    life.check_releases()
    try:
        rows = play(life)
    finally:
        for who in list(life.running):
            life.stop(who)
    with closing(open_run(life.folder / "run")) as run:
        results = list(run.results())
    local = undisturbed(life, path / "undisturbed")
    folders = [life.folder / "run", *map(life.home, SITES)]
    sound = not any(verify_ledger(one / "ledger.jsonl").finding for one in folders)
    return {"table": table(rows, results, local), "ledgers_sound": sound}


def older_schemas(path: Path) -> dict[int, dict[str, Any]]:
    """By schema: what this release finds in a run that the last release with it began."""
    found = {}
    for schema, commit in RELEASES.items():
        folder = path / f"schema-{schema}"
        release = release_of(commit, folder / "release")
        found[schema] = {"commit": commit, **open_older(release, folder)._asdict()}
    return found


def _short(commit: str) -> str:
    line = ["git", "rev-parse", "--short", commit]
    return subprocess.check_output(line, cwd=REPOSITORY, text=True).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--old", required=True, help="the commit of the older release")
    parser.add_argument("--new", default="HEAD", help="the commit of the newer release")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedse-matrix-") as folder:
        path = Path(folder)
        releases = {name: release_of(getattr(args, name), path / name) for name in ("old", "new")}
        commits = {name: _short(getattr(args, name)) for name in releases}
        found = {**commits, **measure(path, releases), "older_schemas": older_schemas(path)}
    args.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
