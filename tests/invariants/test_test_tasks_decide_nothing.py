"""Whatever is decided, is decided without a look at the tasks that are reported."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from fedse.config.schema import Config
from fedse.events import silent
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site.answer import answer
from fedse.site.choose_adapter import choose_adapter
from fedse.site.open import add_demonstrations
from fedse.site.own_adapters import keep_adapter
from fedse.site.rules import first_rules, write_rules
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Purpose, Task

SPEC = toy_spec()
CONFIG = Config.model_validate(
    {
        "run": {"rounds": 3},
        "rollout": {"episodes": 6},
        "buffer": {"demonstrations": 4},
        "splits": {"validation": 0.3, "home": 0.2},
        "gate": {"episodes": 5, "liars": 0},
        "personal": {"steps": 4},
        "eval": {"episodes": 6, "home": 4},
        "clients": [{"name": "a", "env": "fedse.testing:CoinWorld", "options": {"tasks": 50}}],
    }
)
ADAPTER = toy_adapter(SPEC, 1)


@pytest.fixture
def blind(tmp_path: Path) -> Site:
    """A site that cannot see what is reported."""
    opened = open_toy_site(CONFIG, "a", tmp_path, clock=time.time)

    def tasks(purpose: Purpose) -> list[Task]:
        assert purpose in ("train", "validation"), f"{purpose} tasks were read"
        return list(opened.tasks(purpose))

    return replace(opened, tasks=tasks)


def ask(site: Site, home: Path, **changes: object) -> SiteReply:
    fields = {
        "experiment": CONFIG.run.name,
        "round": 1,
        "agreed": CONFIG.agreed_digest(),
        "spec": SPEC.identity,
        "adapter": ADAPTER.digest,
        "kind": "evaluate",
    }
    request = Question.model_validate({**fields, **changes})
    policy = home / "policy.toml"
    rules = first_rules(CONFIG, adapter_bytes=SPEC.nbytes)
    write_rules(policy, rules.model_copy(update={"veto_drop": 0.1}))
    return answer(request, ADAPTER.to_bytes(), site, CONFIG, policy=policy, emit=silent)


def test_the_gate_the_veto_exploration_and_the_choice_read_other_tasks(blind: Site, tmp_path: Path):
    add_demonstrations(blind, CONFIG)
    assert ask(blind, tmp_path, kind="validate").stats.validation_played == 5
    assert ask(blind, tmp_path, kind="train").adapter is not None
    keep_adapter(tmp_path, "global", 3, ADAPTER)
    choose_adapter(blind, CONFIG, tmp_path, games=6, risk=0.05)


def test_only_a_report_reads_them(blind: Site, tmp_path: Path):
    with pytest.raises(AssertionError, match="test tasks were read"):
        ask(blind, tmp_path, evaluate=True)
