"""Real trackers read back what a run sent to them, and keep it on this machine."""

import os
import sys
from pathlib import Path

import pytest

from fedse.errors import MachineError
from fedse.observers.trackers import require_trackers, tracked
from fedse_trackers import SILENT
from tests.exports.toy_run import settings
from tests.needs import needs, optional
from tests.observers.test_trackers import CANARY, EVENTS, heard


def test_a_missing_tracker_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "fedse_trackers.tensorboard_file", raising=False)
    with pytest.raises(
        MachineError, match=r"'tensorboard' of fedse\.trackers needs tensorboard"
    ) as e:
        require_trackers(["tensorboard"])
    assert e.value.hint == "pip install 'fed-se-trackers[tensorboard]'"


def played(name: str, folder: Path, environ: dict[str, str]) -> None:
    """All events went through the real tracker."""
    told: list[str] = []
    (observer,) = tracked([name], folder, settings(), environ=environ, warn=told.append)
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
    for name, value in SILENT.items():
        monkeypatch.setenv(name, value)
    played("wandb", tmp_path, dict(os.environ))
    assert list((tmp_path / "trackers" / "wandb").glob("offline-run-*/*.wandb"))
