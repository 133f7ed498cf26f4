"""The proof on real processes: two regions of three sites = six sites on one coordinator.

Six workers, two regions and the coordinator are processes of their own. One region is killed after
its sites have answered and before its sum is asked for. Once with sites that need no model, once
with the tiny base model.
"""

import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "cryptography")

from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.drivers.loop import federate_by
from fedse.drivers.run import run_local
from fedse.drivers.sites import OpenSite
from fedse.events import Fact
from fedse.ledger.record import ledgers_in, verify_ledger
from fedse.site.open import open_site
from fedse.store.run_folder import create_run, open_run
from fedse.tree.root import Regions
from fedse.tree.run import PlantedTree, planted, region_command
from tests.toys.canary_world import CANARY
from tests.toys.light_worker import open_light_site

pytestmark = [pytest.mark.federated, pytest.mark.slow]

ROUNDS = 2
REGIONS = {"north": ("alpha", "delta", "gamma"), "south": ("beta", "epsilon", "zeta")}
WHERE = {client: region for region, members in REGIONS.items() for client in members}


def experiment(how: str) -> Config:
    world = "tests.toys.canary_world:CanaryWorld"
    return Config.model_validate(
        {
            "run": {"name": "law", "rounds": ROUNDS, "seed": 7},
            "model": {"rank": 2},
            "rollout": {"episodes": 6, "new_tokens": 4, "context": 256, "max_turns": 2},
            "buffer": {"demonstrations": 3},
            "train": {"epochs": 1, "batch": 3, "max_steps": 1, "lr": 1e-3},
            "eval": {"episodes": 2, "every": 10},
            "aggregate": {"sum": how, "deadline": 300.0},
            "clients": [
                {"name": name, "env": world, "region": WHERE[name]} for name in sorted(WHERE)
            ],
        }
    )


def new_run(root: Path, name: str, how: str) -> Path:
    config = experiment(how)
    given, now = dump_config(config), datetime.now()
    create_run(root, config, given=given, name=name, now=now, clock=time.time).close()
    return root / name


def on_one_coordinator(root: Path, how: str, open_one: OpenSite) -> list[str]:
    with closing(open_run(new_run(root, how, how), clock=time.time)) as run:
        run_local(run, open_site=open_one)
        return [result.after for result in run.results()]


class KillsOneRegion:
    """Kills a region of round 2 when all have told and before its sum is asked; starts it again."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.below = run_dir, None
        self.killed = 0

    def __call__(self, event: str, facts: dict[str, Fact]) -> None:
        if event != "aggregate.started" or facts["round"] != 2:
            return
        below: PlantedTree = self.below
        (north,) = (one for one in below.processes.running if one.name == "region-north")
        north.process.kill()
        north.process.wait()
        below.processes.collect(north)
        config, home = self.run_dir / "config.resolved.toml", self.run_dir / "tree/regions/north"
        again = region_command(config, "north", below.sockets, home)
        below.processes.start("region-north", again)
        self.killed += 1


KINDS = {
    "without a model": ("tests.toys.light_worker", open_light_site),
    "with the tiny model": ("fedse.site.worker", open_site),
}


@pytest.mark.parametrize(("worker", "open_one"), KINDS.values(), ids=KINDS)
def test_two_regions_of_three_sites_are_six_sites_on_one_coordinator(
    tmp_path: Path, worker: str, open_one: OpenSite
):
    exact, ordered = (on_one_coordinator(tmp_path, how, open_one) for how in ("exact", "ordered"))
    run_dir = new_run(tmp_path, "tree", "exact")
    killer = KillsOneRegion(run_dir)
    with (
        closing(open_run(run_dir, clock=time.time, observers=[killer])) as run,
        planted(run, run_dir / "tree", worker=worker) as below,
    ):
        killer.below = below
        names = {started.name for started in below.processes.running}
        regions = Regions(run, below.links, clock=time.time)
        federate_by(regions.gather, run, regions, clock=time.time)
        results = list(run.results())
        measured = run.evals(ROUNDS)
    assert names == {*(f"worker-{c}" for c in WHERE), "region-north", "region-south"}
    assert killer.killed == 1
    assert [result.after for result in results] == exact
    assert len(set(exact)) == ROUNDS, "every round changed the adapter"
    assert exact == ordered, "and these votes have the digests they had before the setting"
    assert all(result.voters == tuple(sorted(WHERE)) for result in results)
    assert sorted(measured) == sorted(WHERE)
    require_sound_ledgers(run_dir)
    require_canary_at_home(run_dir)


def require_sound_ledgers(run_dir: Path) -> None:
    """The coordinator's, two regions' and six sites'."""
    ledgers = ledgers_in(run_dir)
    assert len(ledgers) == 1 + 2 + 6
    assert [verify_ledger(path).finding for path in ledgers] == [None] * len(ledgers)
    signed = [e for e in verify_ledger(run_dir / "ledger.jsonl").entries if e.kind == "region"]
    assert [(e.facts["region"], e.facts["line"]["facts"]["round"]) for e in signed] == [
        (region, round) for round in range(1, ROUNDS + 1) for region in REGIONS
    ]


def require_canary_at_home(run_dir: Path) -> None:
    """What an agent saw is in the folder of its site, and not in that of a region or above."""
    sites = run_dir / "tree" / "sites"
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    seen = {path for path in files if CANARY.encode() in path.read_bytes()}
    assert {path.relative_to(sites).parts[0] for path in seen} == set(WHERE)
    assert any(path.is_relative_to(run_dir / "tree" / "regions") for path in files)
