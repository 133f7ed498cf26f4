"""A LangGraph agent calls its tool through the endpoint and is trained on its calls."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import needs

needs("langgraph", "langchain_openai", "llguidance", "torch", "transformers", "peft", "starlette")

from fedse.adapters.base import initial_adapter, spec_of
from fedse.config.file import load_config
from fedse.events import silent
from fedse.method.rounds import explore
from fedse.site.open import open_site
from fedse.store.run_folder import open_run

EXAMPLES = Path(__file__).parents[2] / "examples"
NAME = "langgraph_agent"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def beside_the_example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(EXAMPLES)
    yield
    if example := sys.modules.pop(NAME, None):
        example.HTTP.close()


def test_no_call_is_dropped(tmp_path: Path) -> None:
    config = load_config(EXAMPLES / f"{NAME}.toml", ["rollout.episodes=8"])
    site = open_site(config, "me", tmp_path, clock=lambda: 0.0)
    adapter = initial_adapter(spec_of(config), seed=0)
    played = explore(adapter, site, config, round=1, seed=1, emit=silent)
    assert not [episode.error for episode in played if episode.error]
    for episode in played:
        assert episode.success or len(episode.turns) == 4, "every answer is in the episode"
        assert all(turn.action.startswith("<tool_call>") for turn in episode.turns)
        assert sum(episode.loss_mask) == sum(len(turn.action_ids) for turn in episode.turns)


def test_a_round_ends_with_a_new_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether success rises is not tested: the tiny model has not been seen to learn it."""
    from fedse.cli.app import start

    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    short = ["run.rounds=1", "rollout.episodes=16", "eval.episodes=8", "train.max_steps=2"]
    settings = [word for setting in short for word in ("--set", setting)]
    assert start(["run", f"{NAME}.toml", "--plain", "--name", "mine", *settings]) == 0
    with closing(open_run(tmp_path / "mine")) as run:
        (result,) = run.results()
        assert [bool(run.evals(round)) for round in (0, 1)] == [True, True]
    assert result.voters == ("me",)
    assert result.before != result.after
