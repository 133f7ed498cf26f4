"""A site whose agent has roles: it plays, learns and reports by role, with a real model."""

from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("torch")

from fedse.adapters.base import initial_adapter, spec_of
from fedse.adapters.peft_folder import export_adapter
from fedse.agent.by_role import ByRole
from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.blocks import block_adapter, span_of
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.role_figures import by_role
from fedse.site.open import open_site
from fedse.types import Adapter, ClientUpdate

NAMES = ["planner", "worker"]


def config(**roles: object) -> Config:
    given = {
        "roles": {"names": NAMES, **roles},
        "model": {"base": "tiny", "rank": 2, "alpha": 4},
        "rollout": {"episodes": 2, "batch": 2, "new_tokens": 4, "context": 256},
        "buffer": {"demonstrations": 4},
        "train": {"epochs": 1, "lr": 1e-3, "batch": 2},
        "clients": [{"name": "a", "env": "tests.toys.errand_world:Errand"}],
    }
    return Config.model_validate(given)


def one_round(given: Config, home: Path) -> tuple[Adapter, ClientUpdate]:
    site = open_site(given, "a", home, clock=lambda: 0.0)
    try:
        start = initial_adapter(site.spec, seed=0)
        return start, client_round(start, site, given, round=1, emit=silent)
    finally:
        site.buffer.close()


@pytest.mark.parametrize("policy", ["shared", "isolated"])
def test_a_round_is_played_learned_and_reported_by_role(policy: str, tmp_path: Path):
    start, update = one_round(config(policy=policy), tmp_path)
    found = by_role(update.stats.roles, NAMES)
    assert update.adapter is not None
    for role in NAMES:
        block = role if policy == "isolated" else ""
        span = span_of(start.spec, block)
        moved = float(np.linalg.norm(update.adapter.vector[span] - start.vector[span]))
        assert found[role].drift == pytest.approx(moved, rel=1e-3)
        assert found[role].played == 2
        assert min(found[role].loss, found[role].gradient, found[role].tokens, moved) > 0
    assert update.stats.loss is not None


def test_a_role_without_a_name_is_refused_before_any_work(tmp_path: Path):
    given = config().model_copy(update={"roles": config().roles.model_copy(update={"names": ()})})
    with pytest.raises(ConfigError, match="has the role 'planner', which"):
        open_site(given, "a", tmp_path, clock=lambda: 0.0)


def test_an_environment_without_roles_has_no_isolated_policy(tmp_path: Path):
    given = config(policy="isolated")
    maze = given.clients[0].model_copy(update={"env": "maze"})
    with pytest.raises(ConfigError, match="does not say which role acts"):
        open_site(given.model_copy(update={"clients": (maze,)}), "a", tmp_path, clock=lambda: 0.0)


def test_each_dialogue_is_answered_by_the_policy_of_its_role():
    parts = {name: ScriptedPolicy(lambda d, seed, name=name: name) for name in NAMES}
    policy = ByRole("whole", parts, lambda role: role)
    asked = [Dialogue("", (), "o", role=role) for role in ("worker", "planner", "worker")]
    replies = policy.act(asked, seed=1)
    assert [reply.text for reply in replies if reply] == ["worker", "planner", "worker"]
    assert policy.name == "whole"
    with pytest.raises(ConfigError, match="the role 'walker' has no part"):
        policy.act([Dialogue("", (), "o", role="walker")], seed=1)


def test_each_block_is_a_folder_that_peft_loads(tmp_path: Path):
    spec = spec_of(config(policy="isolated"))
    adapter = initial_adapter(spec, seed=3)
    folder = export_adapter(adapter, tmp_path / "whole")
    for name in NAMES:
        alone = export_adapter(block_adapter(adapter, name), tmp_path / name)
        assert {file.name for file in alone.iterdir()} > {"adapter_config.json"}
        for file in alone.iterdir():
            assert (folder / name / file.name).read_bytes() == file.read_bytes()
    assert not (folder / "adapter_config.json").exists()


def refused(**sections: object) -> str:
    roles = {"names": NAMES, "policy": "isolated"}
    clients = [{"name": "a", "env": "maze"}]
    with pytest.raises(ValueError, match="needs") as caught:
        Config.model_validate({"roles": roles, "clients": clients} | sections)
    return str(caught.value)


def test_what_several_roles_cannot_do_is_refused():
    assert "privacy.epsilon unset" in refused(privacy={"epsilon": 8, "delta": 1e-5})
    assert "clients.roles needs buffer.pooled" in refused(
        buffer={"pooled": True},
        clients=[{"name": "a", "env": "maze", "roles": NAMES}],
        roles={"names": NAMES},
    )
    merged = {"type": "vllm", "adapters": "merged", "url": "http://127.0.0.1:1"}
    assert 'engine.adapters = "lora"' in refused(engine=merged)
