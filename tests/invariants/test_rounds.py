"""Laws of whole runs with toy sites: what a federation of one is, what a kill -9 cannot change."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedse.adapters.base import initial_adapter
from fedse.config.schema import ClientSection, Config, EvalSection, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.run import run_local
from fedse.errors import RunError
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

COIN = "fedse.testing:CoinWorld"


def zero() -> float:
    return 0.0


def config(clients: int = 3, rounds: int = 3, workers: int = 1, seed: int = 0) -> Config:
    names = [f"c{i}" for i in range(clients)]
    return Config(
        run=RunSection(rounds=rounds, workers=workers, seed=seed),
        rollout=RolloutSection(episodes=6, batch=4),
        eval=EvalSection(episodes=4),
        clients=tuple(ClientSection(name=name, env=COIN) for name in names),
    )


def open_run(path: Path, cfg: Config, **options: object) -> Run:
    return Run(path, cfg, toy_spec(), clock=zero, **options)


def final_digest(path: Path, cfg: Config) -> str:
    return run_local(open_run(path, cfg), clock=zero, open_site=open_toy_site).digest


def test_the_same_seed_gives_the_same_adapter_and_another_seed_another(tmp_path: Path):
    first, again = (final_digest(tmp_path / name, config()) for name in "ab")
    other = final_digest(tmp_path / "c", config(seed=1))
    assert first == again != other


def test_one_client_federated_is_no_federation(tmp_path: Path):
    cfg = config(clients=1)
    federated = final_digest(tmp_path / "federated", cfg)
    site = open_toy_site(cfg, "c0", tmp_path / "alone", clock=zero)
    adapter = initial_adapter(toy_spec(), seed=cfg.run.seed)
    for index in range(1, cfg.run.rounds + 1):
        update = client_round(adapter, site, cfg, round=index, emit=silent)
        adapter = update.adapter or adapter
    assert federated == adapter.digest


def test_the_order_of_clients_in_the_file_does_not_matter(tmp_path: Path):
    cfg = config()
    reverse = cfg.model_copy(update={"clients": tuple(reversed(cfg.clients))})
    assert final_digest(tmp_path / "a", cfg) == final_digest(tmp_path / "b", reverse)


def test_spreading_over_processes_changes_no_bit(tmp_path: Path):
    assert final_digest(tmp_path / "a", config()) == final_digest(tmp_path / "b", config(workers=2))


def test_a_finished_run_resumes_to_itself(tmp_path: Path):
    first = final_digest(tmp_path / "a", config())
    assert final_digest(tmp_path / "a", config()) == first


def test_a_longer_run_continues_a_shorter_one(tmp_path: Path):
    final_digest(tmp_path / "a", config(rounds=1))
    # The outbox is keyed by what was agreed, and the number of rounds is part of that.
    assert open_run(tmp_path / "a", config(rounds=1)).committed == 1


def test_too_few_answers_abandon_the_round_and_commit_nothing(tmp_path: Path):
    cfg = config()
    broken = cfg.model_copy(
        update={
            "clients": tuple(ClientSection(name=c.name, env="nowhere:Env") for c in cfg.clients)
        }
    )
    with pytest.raises(RunError, match="round 1 has 0 valid answers"):
        final_digest(tmp_path / "a", broken)
    assert open_run(tmp_path / "a", broken).committed == 0


def test_a_broken_client_is_data(tmp_path: Path):
    cfg = config()
    clients = (*cfg.clients[:2], ClientSection(name="c9", env="nowhere:Env"))
    run = open_run(tmp_path / "a", cfg.model_copy(update={"clients": clients}))
    run_local(run, clock=zero, open_site=open_toy_site)
    for result in run.results():
        assert result.voters == ("c0", "c1")
        assert [e.client for e in result.excluded] == ["c9"]


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_rounds import config, open_run, open_toy_site, run_local, zero
left = int(sys.argv[2])
def observe(event, facts):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
run_local(open_run(Path(sys.argv[1]), config(), observers=[observe]),
          clock=zero, open_site=open_toy_site)
"""


def run_until_killed(path: Path, event_number: int) -> int:
    code = KILLED_RUN.format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", code, str(path), str(event_number)]
    return subprocess.run(command, capture_output=True, timeout=60).returncode


def test_kill_nine_at_any_event_changes_no_bit(tmp_path: Path):
    """Every event of the run is a kill point; the six of the threat model are among them."""
    undisturbed = final_digest(tmp_path / "whole", config())
    events = (tmp_path / "whole" / "events.jsonl").read_text().splitlines()
    named = {"rollout.started", "train.started", "upload.started"}
    named |= {"aggregate.started", "commit.started", "round.committed"}
    assert all(any(f'"{name}"' in line for line in events) for name in named)
    step = max(1, len(events) // 16)
    for number in range(1, len(events) + 1, step):
        path = tmp_path / str(number)
        assert run_until_killed(path, number) == -signal.SIGKILL
        assert final_digest(path, config()) == undisturbed, events[number - 1]


@pytest.mark.slow
def test_kill_nine_again_and_again(tmp_path: Path):
    """A run killed in every life, each a little longer than the last, still ends the same."""
    undisturbed = final_digest(tmp_path / "whole", config())
    path, lives = tmp_path / "cat", 0
    while run_until_killed(path, 5 + 4 * lives) == -signal.SIGKILL:
        lives += 1
    assert lives >= 5
    assert final_digest(path, config()) == undisturbed
