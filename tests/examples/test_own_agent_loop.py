"""The example program improves through the endpoint, and what it learns from is what it sampled."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.needs import needs

needs("torch", "transformers", "peft", "starlette", "uvicorn")

from fedse.adapters.base import spec_of
from fedse.agent.policy import Dialogue
from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.events import silent
from fedse.method.rounds import client_round, explore
from fedse.method.site import Site
from fedse.site.open import open_site

EXAMPLES = Path(__file__).parents[2] / "examples"
NAME = "own_agent_loop"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(NAME, EXAMPLES / f"{NAME}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, NAME, module)
    return module


def config(*overrides: str) -> Config:
    return load_config(EXAMPLES / f"{NAME}.toml", overrides)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return open_site(config(), "me", tmp_path, clock=lambda: 0.0)


def test_the_program_knows_nothing_of_fedse() -> None:
    text = (EXAMPLES / f"{NAME}.py").read_text()
    code = text.split('"""', 2)[2]
    assert "fedse" not in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 40


def test_a_round_is_token_exact(site: Site) -> None:
    from fedse.adapters.base import base_path, initial_adapter
    from fedse.agent.loaded import load_base

    settings = config("rollout.episodes=12", "train.max_steps=2")
    adapter, encoder = (
        initial_adapter(spec_of(settings), seed=0),
        load_base(base_path("tiny")).encoder,
    )
    played = explore(adapter, site, settings, round=1, seed=1, emit=silent)
    assert len(played) == 12
    assert not [episode.error for episode in played if episode.error]
    for episode in played:
        assert episode.turns
        for number, turn in enumerate(episode.turns):
            before = Dialogue("maze", episode.turns[:number], turn.observation)
            assert turn.context_ids == encoder.context(before)
            assert turn.action == encoder.text(turn.action_ids)
            assert turn.observation.startswith("at ")
        assert sum(episode.loss_mask) == sum(len(turn.action_ids) for turn in episode.turns)
    site.buffer.add([played[0].model_copy(update={"outcome": "success"})], experiment="other")
    update = client_round(adapter, site, settings, round=1, emit=silent)
    assert update.stats.played == 12
    assert update.adapter is not None


@pytest.mark.slow
def test_success_rises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    from fedse.cli.app import start

    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    monkeypatch.chdir(EXAMPLES)
    assert start(["run", f"{NAME}.toml", "--plain", "--name", "mine"]) == 0
    lines = (tmp_path / "mine" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    won = [event["won"] for event in events if event["event"] == "eval.recorded"]
    assert len(won) == 5
    assert won[-1] > won[0]
