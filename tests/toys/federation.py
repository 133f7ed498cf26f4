"""The experiment the federated tests run: five clients, toy worlds, no model."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil

from fedse.config.schema import Config
from fedse.protocol import Question
from fedse.testing import toy_spec
from fedse.types import Adapter

SPEC = toy_spec()
NAMES = ("alpha", "beta", "delta", "epsilon", "gamma")
"""In sorted order, so a client's place on the wire is its place here."""

ServeToy = Callable[..., Path]


def toy_config(*, env: str = "fedse.testing:CoinWorld", **options: object) -> Config:
    clients = [{"name": name, "env": env, "options": options} for name in NAMES]
    return Config.model_validate(
        {
            "run": {"name": "toy", "rounds": 2},
            "rollout": {"episodes": 6},
            "eval": {"episodes": 4},
            "aggregate": {"deadline": 5},
            "clients": clients,
        }
    )


def first_request(config: Config, adapter: Adapter, **changes: object) -> Question:
    fields: dict[str, object] = {
        "experiment": config.run.name,
        "round": 1,
        "agreed": config.agreed_digest(),
        "spec": adapter.spec.identity,
        "adapter": adapter.digest,
        "kind": "train",
        "evaluate": True,
    }
    return Question.model_validate({**fields, **changes})


def lives(group: int) -> bool:
    """Whether a process of the group runs; one that ended but was not collected does not."""
    return any(_runs_in(pid, group) for pid in psutil.pids())


def _runs_in(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
