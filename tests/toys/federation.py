"""The experiment the federated tests run: five clients, toy worlds, no model."""

from collections.abc import Callable
from pathlib import Path

from fedse.config.schema import Config
from fedse.protocol import Request
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


def first_request(config: Config, adapter: Adapter, **changes: object) -> Request:
    fields: dict[str, object] = {
        "experiment": config.run.name,
        "round": 1,
        "agreed": config.agreed_digest(),
        "spec": adapter.spec.identity,
        "adapter": adapter.digest,
        "train": True,
        "evaluate": True,
    }
    return Request.model_validate({**fields, **changes})


def lives(group: int) -> bool:
    """Whether a process of the group runs; one that ended but was not collected does not."""
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False
