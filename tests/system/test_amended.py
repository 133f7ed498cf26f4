"""A real federation is amended while rounds go on: by the rules of one site and the owner of the
other, and then by a third member."""

import shutil
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.config.schema import ClientSection
from fedse.drivers.run import run_local
from fedse.flower.ops.serve_federation import sync_nodes
from fedse.ledger.verifying import verify_ledger
from fedse.site.agreements import proposed
from fedse.site.rules import read_rules, write_rules
from fedse.store.agreements import FOLDER, accepted_by
from fedse.store.run_folder import create_run
from tests.system.field import SHORT_ROUND, Field, field, maze_clients
from tests.toys.light_site import open_light_site

SITES, ROUNDS = ("alpha", "beta"), 7
EXPERIMENT = f"""[run]
name = "amended"
rounds = {ROUNDS}
[eval]
episodes = 0
{SHORT_ROUND}
{maze_clients(SITES)}"""


def fedse(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "fedse", *arguments], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def amend(f: Field, *arguments: str) -> str:
    where = ["--dir", str(f.federation.path), "--reason", "a test"]
    return fedse("federation", "amend", *arguments, *where)


def agree(f: Field, site: str, number: int) -> str:
    assert [one.number for one in proposed(f.home(site))] == [number]
    return fedse("site", "agreement", "--accept", str(number), "--home", str(f.home(site)))


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_setting_and_a_member_are_agreed_on_while_rounds_go_on(tmp_path: Path):
    with field(tmp_path / "field", EXPERIMENT, light=True) as f:
        rules = read_rules(f.home("alpha") / "policy.toml")
        bounds = rules.model_copy(update={"accept": {"train.lr": (1e-4, 1e-2)}})
        write_rules(f.home("alpha") / "policy.toml", bounds)
        held = {round: f.hold("alpha", "train.started", round) for round in (2, 3, 4, 5, 6)}
        for site in SITES:
            f.start_site(site)
        f.start_server()
        f.wait(300, until=held[2])
        assert "train.lr: 0.001 -> 0.002" in amend(
            f, "--set", "train.lr=0.002", "--from-round", "4"
        )
        f.let_go()
        f.wait(120, until=held[3])
        assert accepted_by(f.federation.run, 2) == {"alpha"}
        assert "it holds from round 4 on" in agree(f, "beta", 2)
        f.let_go()
        f.wait(120, until=held[4])
        amend(f, "--add", "gamma", "--from-round", "6")
        f.enrol("gamma", ClientSection(name="gamma", env="maze", options={"prompt": "short"}))
        assert sync_nodes(f.federation)
        f.start_site("gamma")
        f.let_go()
        f.wait(120, until=held[5])
        agree(f, "alpha", 3)
        f.let_go()
        f.wait(120, until=held[6])
        agree(f, "beta", 3)
        f.let_go()
        assert f.wait_for_end(300) == 0, f.last_words()
        results = f.results()
    both, three = SITES, (*SITES, "gamma")
    assert [one.voters for one in results] == [*[both] * 5, ("alpha", "gamma"), three]
    assert [one.text for one in results[5].excluded] == ["has not accepted agreement 3"]
    for folder in (f.federation.run, *map(f.home, three)):
        assert verify_ledger(folder / "ledger.jsonl").finding is None
    assert [one.after for one in results[:5]] == local(tmp_path, f, rounds=5)


def local(path: Path, f: Field, *, rounds: int) -> list[str]:
    """The adapters of the local driver under the first amendment."""
    now = datetime.now(UTC)
    run = create_run(path, f.config, given=EXPERIMENT, name="local", now=now, clock=time.time)
    (run.path / FOLDER).mkdir()
    shutil.copy(f.federation.run / FOLDER / "2.json", run.path / FOLDER)
    with closing(run):
        run_local(run, open_site=open_light_site)
        return [one.after for one in run.results()][:rounds]
