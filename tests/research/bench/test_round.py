"""Both sides of the round's benchmark move the same bytes; starting is no part of a round."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.needs import needs

needs("flwr", "psutil", "cryptography")

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from fedse.adapters.base import spec_of
from fedse.cli.app import start
from fedse.processes.group import Processes
from research.bench import round as bench
from research.bench.__main__ import app
from research.bench.bare_app import APP, write_bare_app
from research.bench.round import RoundBench, RoundCost, costs, pause, smallest_experiment


@pytest.mark.parametrize("megabytes", [0.05, 0.24, 2.0])
def test_the_adapter_has_the_size_that_was_asked_for(megabytes: float):
    size = spec_of(smallest_experiment(nodes=2, megabytes=megabytes, rounds=1)).nbytes
    one_rank = 29_500
    assert abs(size - megabytes * 1e6) <= one_rank / 2
    assert size % 4 == 0, "the bare app's numbers have four bytes each"


def bare(folder: Path, name: str) -> ModuleType:
    file = write_bare_app(folder) / APP / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bare_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("task_identity")
def test_the_bare_app_returns_as_many_bytes_as_it_received(tmp_path: Path):
    """And no piece of them is equal to what came or to what another node returns."""
    size = spec_of(smallest_experiment(nodes=2, megabytes=0.05, rounds=1)).nbytes
    sent = np.arange(size // 4, dtype=np.float32)
    question = Message(RecordDict({"arrays": ArrayRecord({"adapter": Array(sent)})}), 1, "train")
    question.metadata.__dict__["_message_id"] = "1"
    answer = bare(tmp_path, "client").train
    replies = [answer(question, Context(1, node, {}, RecordDict(), {})) for node in (7, 8)]
    returned = [reply.content["arrays"]["adapter"].numpy() for reply in replies]
    assert {array.nbytes for array in (sent, *returned)} == {size}
    assert not np.any(returned[0] == sent)
    assert not np.any(returned[0] == returned[1])


def test_rounds_are_counted_from_the_end_of_the_first(tmp_path: Path, monkeypatch):
    used = iter([{"node": 7.0, "worker": 1.0}, {"node": 9.0, "worker": 1.5}, {"node": 12.0}])
    monkeypatch.setattr(bench, "used_so_far", lambda processes: next(used))
    ended = iter([0, 1, 3])
    with Processes(tmp_path, {}) as processes:
        got = costs(processes, lambda: next(ended, 3), rounds=2)
    assert [(cost.flower, cost.sites) for cost in got] == [(2.0, 0.5), (3.0, 0.0)]


def test_a_worker_is_no_part_of_the_ratio():
    ours = RoundCost(flower=3.0, sites=100.0, wall=1.0, parts={})
    other = RoundCost(flower=2.0, sites=0.0, wall=1.0, parts={})
    assert RoundBench(1, 4, (ours, ours), (other,)).ratio == 1.5


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_a_bare_simulation_waits_as_long_as_ours_works(cores: int, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    rounds = [RoundCost(flower=1.0, sites=1.0, wall=wall, parts={}) for wall in (3.0, 5.0)]
    # As many virtual nodes at a time as there are cores, one after the other on each.
    assert pause(rounds, 10) * (10 / min(cores, 10)) == pytest.approx(4.0)


@pytest.mark.federated
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_small_round_is_measured(capfd):
    assert start(["round", "--nodes", "2", "--rounds", "1", "--json"], app) == 0
    result = json.loads(capfd.readouterr().out)
    assert (result["nodes"], result["megabytes"]) == (2, pytest.approx(0.24, abs=0.015))
    for side in (result["fedse"], result["bare"]):
        (only,) = side["rounds"]
        assert only["flower"] == pytest.approx(sum(only["parts"].values()))
        # A process for each message is the least that Flower starts.
        assert only["parts"]["node"] > 2 * cpu_of_imports()
    assert result["fedse"]["sites"] > 0.0 == result["bare"]["sites"]
    assert result["ratio"] == pytest.approx(result["fedse"]["flower"] / result["bare"]["flower"])


def cpu_of_imports() -> float:
    code = "import time, flwr.clientapp; print(time.process_time())"
    return float(subprocess.check_output([sys.executable, "-c", code])) / 2
