"""Trackers hear numbers under known names, at the right round, and can never stop a run."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fedse.config.schema import Config
from fedse.errors import MachineError
from fedse.observers import trackers
from fedse.observers.trackers import Metrics, Sink, require_trackers, tracked
from tests.exports.toy_run import settings
from tests.needs import needs, optional

CANARY = "what the agent saw"
ANSWER = {
    "played": 8,
    "succeeded": 2,
    "loss": 0.5,
    "buffered": 10,
    "added": 2,
    "bytes": 100,
    "rollout_seconds": 1.0,
    "train_seconds": 2.0,
    "eval_seconds": 3.0,
}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("run.started", {"rounds": 1, "committed": 0, "clients": 2}),
    ("answer.received", {"round": 1, "client": "alpha", "fault": "", **ANSWER}),
    ("eval.recorded", {"round": 0, "client": "alpha", "played": 4, "won": 1}),
    ("answer.received", {"round": 1, "client": "beta", "fault": CANARY, **ANSWER}),
    ("eval.recorded", {"round": 0, "client": "beta", "played": 6, "won": 0}),
    ("answer.received", {"round": 1, "client": CANARY, "fault": "", **ANSWER}),
    ("eval.recorded", {"round": 0, "client": CANARY, "played": 6, "won": 6}),
    ("round.committed", {"round": 1, "seconds": 9.0, "voters": 1, "adapter": CANARY}),
    ("eval.recorded", {"round": 1, "client": "alpha", "played": 4, "won": 3}),
    ("run.finished", {"rounds": 1, "adapter": CANARY}),
]
ENV = "fedse.testing_CoinWorld"


def heard(config: Config) -> dict[tuple[str, int], float]:
    metrics, found = Metrics(config), {}
    for event, facts in EVENTS:
        for step, numbers in metrics.take(event, facts):
            found |= {(name, step): value for name, value in numbers.items()}
    return found


def test_events_become_numbers_at_their_round():
    found = heard(settings())
    assert found[f"success/{ENV}/alpha", 0] == 0.25
    assert found[f"success/{ENV}", 0] == 0.1, "all episodes of an environment together"
    assert found["success/all", 1] == 0.75
    assert found["learn/alpha/loss", 1] == 0.5
    assert found["round/bytes_up", 1] == 100
    assert found["round/seconds", 1] == 9.0
    assert ("learn/beta/loss", 1) not in found, "an excluded answer counts for nothing"


def test_no_text_of_an_event_is_passed_on():
    found = heard(settings())
    assert len(found) > 10
    assert all(isinstance(value, float) for value in found.values())
    assert CANARY not in str(found)


def test_a_client_without_a_vote_has_no_loss():
    facts = {"round": 1, "client": "alpha", "fault": "", **ANSWER, "loss": None}
    ((_, numbers),) = Metrics(settings()).take("answer.received", facts)
    assert "learn/alpha/loss" not in numbers
    assert numbers["learn/alpha/buffer"] == 10


@pytest.mark.parametrize("breaks", ["start", "log", "close"])
def test_a_tracker_that_fails_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
):
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    def begin(*_: object) -> Sink:
        if breaks == "start":
            fail()
        return Sink(fail if breaks == "log" else lambda *_: None, fail)

    monkeypatch.setitem(trackers.SINKS, "wandb", begin)  # type: ignore[arg-type]
    told: list[str] = []
    (observer,) = tracked(["wandb"], tmp_path, settings(), environ={}, warn=told.append)
    for event, facts in EVENTS:
        observer(event, {"time": 1.0, "event": event, **facts})
    assert told == ["wandb stopped tracking this run: OSError: the disk is full"]


def test_a_missing_package_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch):
    for package in trackers.NEEDS["mlflow"]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MachineError, match="needs mlflow, sqlalchemy, alembic") as caught:
        require_trackers(["mlflow"])
    assert caught.value.hint == "pip install 'fed-se[mlflow]'"


def played(name: str, folder: Path, environ: dict[str, str]) -> None:
    """All events went through the real tracker."""
    told: list[str] = []
    (observer,) = tracked([name], folder, settings(), environ=environ, warn=told.append)  # type: ignore[list-item]
    for event, facts in EVENTS:
        observer(event, {"time": 1000.0, "event": event, **facts})
    assert told == []


def test_tensorboard_reads_it_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    played("tensorboard", tmp_path, {})
    read = EventAccumulator(str(tmp_path / "trackers" / "tensorboard")).Reload()
    found = {}
    for name in read.Tags()["tensors"]:
        for event in read.Tensors(name):
            found[name, event.step] = event.tensor_proto.float_val[0]
    assert found == pytest.approx(heard(settings()), rel=1e-6)
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert CANARY.encode() not in written
    assert capsys.readouterr().out == ""


@optional("mlflow")
def test_mlflow_reads_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    played("mlflow", tmp_path, {})
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/trackers/mlflow.db")
    experiment = client.get_experiment_by_name("toy")
    assert experiment
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == tmp_path.name
    assert run.info.status == "FINISHED"
    found = {
        (name, metric.step): metric.value
        for name in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, name)
    }
    assert found == pytest.approx(heard(settings()))


@optional("trackio")
def test_trackio_keeps_it_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert "trackio" not in sys.modules, "it reads its folder when it is imported"
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    played("trackio", tmp_path, dict(os.environ))
    assert (tmp_path / "trackio" / "toy.db").is_file()
    assert capsys.readouterr().out == ""


@optional("wandb")
def test_wandb_is_offline_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in trackers.SILENT.items():
        monkeypatch.setenv(name, value)
    played("wandb", tmp_path, dict(os.environ))
    assert list((tmp_path / "trackers" / "wandb").glob("offline-run-*/*.wandb"))
