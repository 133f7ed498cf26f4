"""The law: local driver = Flower simulation = Flower deployment, adapter digest for digest.

The worlds say a canary in everything an agent sees, so the same three runs also show that it
stays where it was seen.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr", "ray", "torch")

from fedse.committed import RoundResult
from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.federation.keys import make_node_key
from fedse.flower.ops.commands import command, environment, healthy
from fedse.flower.ops.deployment import deployed, run_app
from fedse.flower.ops.simulation import run_simulation
from fedse.store.run_folder import create_run, open_run
from tests.toys.canary_world import CANARY
from tests.toys.federation import NAMES, lives

pytestmark = [pytest.mark.federated, pytest.mark.slow]

ROUNDS = 3
TINY = {
    "run": {"name": "law", "rounds": ROUNDS, "seed": 7},
    "model": {"rank": 2},
    "rollout": {"episodes": 3, "new_tokens": 4, "context": 256, "max_turns": 2},
    "buffer": {"demonstrations": 3},
    "train": {"epochs": 1, "batch": 3, "max_steps": 1, "lr": 1e-3},
    "eval": {"episodes": 2, "every": 10},
    "aggregate": {"deadline": 120.0},
    "clients": [{"name": name, "env": "tests.toys.canary_world:CanaryWorld"} for name in NAMES],
}


class Outcome(NamedTuple):
    """What a driver left behind."""

    run_dir: Path
    folder: Path
    results: list[RoundResult]


def new_run(root: Path, name: str) -> Path:
    config = Config.model_validate(TINY)
    given, now = dump_config(config), datetime.now()
    create_run(root, config, given=given, name=name, now=now, clock=time.time).close()
    return root / name


def outcome(run_dir: Path, folder: Path) -> Outcome:
    with closing(open_run(run_dir, clock=time.time)) as run:
        return Outcome(run_dir, folder, list(run.results()))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("law")


@pytest.fixture(scope="module")
def local(root: Path) -> Outcome:
    run_dir = new_run(root, "local")
    with closing(open_run(run_dir, clock=time.time)) as run:
        run_local(run)
    return outcome(run_dir, run_dir)


@pytest.fixture(scope="module")
def simulation(root: Path) -> Outcome:
    run_dir, folder = new_run(root, "simulation"), root / "simulation-flower"
    digest = run_simulation(run_dir, folder)
    done = outcome(run_dir, folder)
    assert done.results[-1].after == digest
    return done


class Deployed(NamedTuple):
    outcome: Outcome
    plain_http: bool
    """Whether the server answered without TLS."""
    stranger: str
    """What a node with a key nobody registered was told."""
    again: str
    """Digest after the finished run was submitted a second time."""
    groups: list[int]
    """Process groups that were started."""


@pytest.fixture(scope="module")
def deployment(root: Path) -> Deployed:
    run_dir, folder = new_run(root, "deployment"), root / "deployment-flower"
    with deployed(run_dir, folder) as running:
        run_app(running)
        done = outcome(run_dir, folder)
        again = run_app(running)
        address = (folder / "flower" / "config.toml").read_text().split('address = "')[1]
        address = address.partition('"')[0]
        plain = healthy(address, None)
        stranger = stranger_is_told(folder, address)
        groups = [started.process.pid for started in running.processes.running]
    return Deployed(done, plain, stranger, again, groups)


def stranger_is_told(folder: Path, address: str) -> str:
    key = make_node_key(folder / "stranger")
    link = ["--superlink", address, "--root-certificates", str(folder / "keys" / "ca.crt")]
    own = ["--host", "127.0.0.1", "--port", "1", "--isolation", "process"]
    told = subprocess.run(
        [
            command("flower-supernode"),
            *link,
            *own,
            "--auth-supernode-private-key",
            str(key.private),
        ],
        env=environment(folder / "stranger" / "flower"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return f"{told.returncode} {told.stdout}{told.stderr}"


@pytest.fixture(params=["simulation", "deployment"])
def flower(request: pytest.FixtureRequest) -> Outcome:
    """Each of Flower's drivers; .ci/run chooses one by its name."""
    done = request.getfixturevalue(request.param)
    return done.outcome if isinstance(done, Deployed) else done


def test_law(local: Outcome, flower: Outcome):
    expected = [result.after for result in local.results]
    assert len(set(expected)) == ROUNDS, "every round changed the adapter"
    assert [result.after for result in flower.results] == expected


def test_a_finished_run_that_is_submitted_again_stays_as_it_is(deployment: Deployed):
    assert deployment.again == deployment.outcome.results[-1].after


def test_all_five_voted_in_every_round(flower: Outcome):
    for result in flower.results:
        assert result.voters == NAMES
        assert (result.excluded, result.absent) == ((), ())


def test_evaluations_are_the_same(local: Outcome, flower: Outcome):
    def measured(done: Outcome) -> list[tuple[str, int, int]]:
        with closing(open_run(done.run_dir, clock=time.time)) as run:
            evals = run.evals(ROUNDS)
        return [(name, s.eval_played, s.eval_succeeded) for name, s in evals.items()]

    assert [name for name, _, _ in measured(local)] == list(NAMES)
    assert measured(local) == measured(flower)


def files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_socket())


def test_the_canary_stays_at_home(deployment: Deployed):
    folder, run_dir = deployment.outcome.folder, deployment.outcome.run_dir
    sites = {name: folder / "sites" / name for name in NAMES}
    for home in sites.values():
        assert CANARY.encode() in (home / "buffer.db").read_bytes(), "the site has seen it"
    server = [
        path
        for path in (*files_of(folder), *files_of(run_dir))
        if folder / "sites" not in path.parents
    ]
    assert {"superlink.db", "superlink.log", "run.log", "state.db"} <= {p.name for p in server}
    told = (folder / "superlink.db").read_bytes()
    assert b"eval_succeeded" in told, "replies went through this file"
    leaks = [str(path) for path in server if CANARY.encode() in path.read_bytes()]
    assert leaks == []


def test_the_server_speaks_tls_and_knows_its_nodes(deployment: Deployed):
    assert not deployment.plain_http
    assert "Exit Code: 305" in deployment.stranger
    assert "Failed to activate SuperNode" in deployment.stranger


def test_nothing_runs_afterwards(deployment: Deployed):
    assert len(deployment.groups) == 2 + 2 * len(NAMES)
    ends = time.monotonic() + 10
    left = deployment.groups
    while left and time.monotonic() < ends:
        left = [group for group in left if lives(group)]
    assert left == []
