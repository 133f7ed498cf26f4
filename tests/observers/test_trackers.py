"""Trackers hear numbers under known names, at the right round, and can never stop a run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedse.config.schema import Config
from fedse.errors import ConfigError, MachineError
from fedse.observers import trackers
from fedse.observers.trackers import Metrics, require_trackers, tracked
from tests.exports.toy_run import settings

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

    def begin(*_: object) -> SimpleNamespace:
        if breaks == "start":
            fail()
        return SimpleNamespace(log=fail if breaks == "log" else lambda *_: None, close=fail)

    monkeypatch.setattr(trackers, "load_plugin", lambda group, name: begin)
    told: list[str] = []
    (observer,) = tracked(["wandb"], tmp_path, settings(), environ={}, warn=told.append)
    for event, facts in EVENTS:
        observer(event, {"time": 1.0, "event": event, **facts})
    assert told == ["wandb stopped tracking this run: OSError: the disk is full"]


def test_a_missing_package_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedse.errors.is_installed", lambda name: False)
    with pytest.raises(
        MachineError, match=r"--track mlflow needs fedse_trackers.*--track wandb"
    ) as all_:
        require_trackers(["mlflow", "wandb"])
    assert all_.value.hint == "pip install 'fed-se-trackers[mlflow]' 'fed-se-trackers[wandb]'"
    with pytest.raises(ConfigError, match=r"--track must be one of .*did you mean 'tensorboard'"):
        require_trackers(["tensorbord"])
