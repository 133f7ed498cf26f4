"""Laws of whole runs with toy sites: what a federation of one is, what a kill -9 cannot change."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedse.adapters.base import initial_adapter
from fedse.aggregate.factors import travelling_spec
from fedse.config.judging import EvalSection
from fedse.config.schema import (
    AggregateSection,
    ClientSection,
    Config,
    RolloutSection,
)
from fedse.config.schema import RunSection as RunSection
from fedse.config.training import TrainSection
from fedse.drivers.run import run_local
from fedse.errors import RunError
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from tests.toys.aggregators import ONE, TWO

COIN = "fedse.testing:CoinWorld"


def zero() -> float:
    return 0.0


def config(
    clients: int = 3,
    rounds: int = 3,
    workers: int = 1,
    seed: int = 0,
    factors: str = "both",
    merge: str = "mean",
    optimizer: str = "fresh",
) -> Config:
    names = [f"c{i}" for i in range(clients)]
    return Config(
        aggregate=AggregateSection(type=merge),
        run=RunSection(rounds=rounds, workers=workers, seed=seed),
        train=TrainSection(
            factors=factors,
            optimizer=optimizer,
            schedule="run" if optimizer == "kept" else "round",
        ),
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


@pytest.mark.parametrize("merge", [ONE, TWO])
def test_what_an_aggregator_remembers_is_of_the_committed_round(tmp_path: Path, merge: str):
    """Read back from the folder, it is what a run of all rounds in one life goes on with."""
    whole, plain = config(merge=merge), config()
    end = final_digest(tmp_path / "whole", whole)
    for rounds in (1, 2, 3):
        final_digest(tmp_path / "parts", config(rounds=rounds, merge=merge))
    assert final_digest(tmp_path / "parts", whole) == end != final_digest(tmp_path / "p", plain)
    run = open_run(tmp_path / "whole", whole)
    remembered = [[m.digest for m in run.moments(index)] for index in range(4)]
    assert [len(digests) for digests in remembered] == [0, *[len(remembered[1])] * 3]
    assert [list(result.moments) for result in run.results()] == remembered[1:]
    assert len({digests[0] for digests in remembered[1:]}) == 3
    for index in (2, 3):
        kept, before = (
            [memory.vector for memory in run.moments(place)] for place in (index, index - 1)
        )
        step = run.adapter(index).vector - run.adapter(index - 1).vector - sum(kept) / 2
        np.testing.assert_allclose(kept[0], step + before[0] / 2, atol=1e-6)


@pytest.mark.parametrize("factors", ["both", "b"])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_factor_that_rests_keeps_its_bits_and_does_not_travel(
    tmp_path: Path, factors: str, pooled: bool
):
    cfg = config(factors=factors)
    cfg = cfg.model_copy(update={"buffer": cfg.buffer.model_copy(update={"pooled": pooled})})
    final_digest(tmp_path, cfg)
    run = open_run(tmp_path, cfg)
    a, b = (tensor.name for tensor in run.spec.tensors)
    learned = {"both": {a, b}, "b": {b}}[factors]
    for index, result in enumerate(run.results(), start=1):
        before, after = (run.adapter(i).tensors() for i in (index - 1, index))
        changed = {name for name in after if before[name].tobytes() != after[name].tobytes()}
        assert changed == learned
        # A never changes with "b", so it travels neither way.
        sent = travelling_spec(run.spec, cfg)
        assert {tensor.name for tensor in sent.tensors} == learned
        assert result.voters == ("c0", "c1", "c2")
        assert result.bytes_up == result.bytes_down == 3 * sent.nbytes


def test_spreading_over_processes_changes_no_bit(tmp_path: Path):
    assert final_digest(tmp_path / "a", config()) == final_digest(tmp_path / "b", config(workers=2))


def test_moments_and_schedule_of_a_run_change_the_adapter_and_no_driver_does(tmp_path: Path):
    kept, fresh = (config(optimizer=optimizer) for optimizer in ("kept", "fresh"))
    level = kept.model_copy(update={"train": TrainSection(optimizer="kept", schedule="constant")})
    first, *others = (
        final_digest(tmp_path / str(index), cfg) for index, cfg in enumerate((kept, fresh, level))
    )
    assert first not in others
    assert first == final_digest(tmp_path / "spread", config(optimizer="kept", workers=2))


def test_a_finished_run_resumes_to_itself(tmp_path: Path):
    first = final_digest(tmp_path / "a", config())
    assert final_digest(tmp_path / "a", config()) == first


def adapters_of(path: Path, cfg: Config) -> list[str]:
    """Digests of the global adapter after each committed round, the first one included."""
    run = open_run(path, cfg)
    return [run.adapter(index).digest for index in range((run.committed or 0) + 1)]


def test_a_longer_run_continues_a_shorter_one(tmp_path: Path):
    short, long = config(rounds=1), config(rounds=3)
    final_digest(tmp_path / "short", short)
    final_digest(tmp_path / "long", long)
    before, whole = adapters_of(tmp_path / "short", short), adapters_of(tmp_path / "long", long)
    assert (len(before), len(set(whole)), before) == (2, 4, whole[:2])
    # The settings are all that is longer; the folder is the one of the finished run.
    assert final_digest(tmp_path / "short", long) == whole[-1]
    assert adapters_of(tmp_path / "short", long) == whole


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
    told = [(r.index, r.voters, [e.client for e in r.excluded]) for r in run.results()]
    assert told == [(index, ("c0", "c1"), ["c9"]) for index in (1, 2, 3)]


KILLED_RUNS = """
import os, signal, sys
from pathlib import Path
from tests.invariants.test_rounds import config, open_run, open_toy_site, run_local, zero

def run_until_killed(path, left):
    def observe(event, facts):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    run = open_run(
        path,
        config({clients}, merge="{merge}", optimizer="{optimizer}"),
        observers=[observe],
    )
    run_local(run, clock=zero, open_site=open_toy_site)

# A copy of this process for each run: importing takes longer than the run itself.
for path, number in zip(sys.argv[1::2], sys.argv[2::2]):
    child = os.fork()
    if not child:
        run_until_killed(Path(path), int(number))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def kill_at(cfg: Config, *runs: tuple[Path, int]) -> list[int]:
    """Each run went on in its folder until the event of that number; the exit codes."""
    code = KILLED_RUNS.format(
        clients=len(cfg.clients), merge=cfg.aggregate.type, optimizer=cfg.train.optimizer
    )
    command = [sys.executable, "-c", code, *(str(word) for run in runs for word in run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("merge", "optimizer"), [("mean", "fresh"), (ONE, "fresh"), (TWO, "kept")])
def test_kill_nine_at_any_event_changes_no_bit(tmp_path: Path, merge: str, optimizer: str):
    """Every event of the run is a kill point; the six of the threat model are among them."""
    small = config(clients=2, merge=merge, optimizer=optimizer)
    undisturbed = final_digest(tmp_path / "whole", small)
    events = (tmp_path / "whole" / "events.jsonl").read_text().splitlines()
    named = {"rollout.started", "train.started", "upload.started"}
    named |= {"aggregate.started", "commit.started", "round.committed"}
    assert named < {json.loads(line)["event"] for line in events}
    numbers = range(1, len(events) + 1)
    killed = kill_at(small, *((tmp_path / str(number), number) for number in numbers))
    assert killed == [-signal.SIGKILL] * len(events)
    ends = [final_digest(tmp_path / str(number), small) for number in numbers]
    assert [events[i] for i, digest in enumerate(ends) if digest != undisturbed] == []


@pytest.mark.slow
def test_kill_nine_again_and_again(tmp_path: Path):
    """A run killed in every life, each a little longer than the last, still ends the same."""
    undisturbed = final_digest(tmp_path / "whole", config())
    path = tmp_path / "cat"
    # More lives than it needs: one that finds the run at its end returns at once.
    ends = kill_at(config(), *((path, 5 + 4 * life) for life in range(20)))
    lives = ends.index(0)
    assert ends == [-signal.SIGKILL] * lives + [0] * (20 - lives)
    assert lives >= 5
    assert final_digest(path, config()) == undisturbed
