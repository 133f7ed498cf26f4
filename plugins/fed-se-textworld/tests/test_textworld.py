"""TextWorldExpress: every game keeps its contract, its folds are apart, its solutions solve it."""

import shutil

import pytest

from tests.needs import needs

needs("py4j", "textworld_express")

from fedse.envs.base import Env, ExpertEnv
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError, MachineError
from fedse_textworld import simulator
from fedse_textworld.env import GAMES, TextWorld
from tests.envs.kept import assert_all_kept

SMALL = {
    "coin": {"numLocations": 5, "numDistractorItems": 0},
    "cookingworld": {"numLocations": 2, "numIngredients": 2, "includeDoors": 0},
    "mapreader": {"numLocations": 5, "maxDistanceApart": 3},
    "twc": {"numLocations": 1, "numItemsToPutAway": 1},
}
"""Parameters with which the solution is short."""


def small(game: str, **options: object) -> TextWorld:
    return TextWorld(game=game, params=SMALL.get(game), **options)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("prompt", ["full", "short"])
def test_keeps_every_promise(game: str, prompt: str) -> None:
    options = {"game": game, "params": SMALL.get(game, {}), "prompt": prompt}
    assert_all_kept(check_env("textworld", options, tasks=5, hash_seeds=(1,)))


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(small("coin"), Env)
    assert isinstance(small("coin"), ExpertEnv)


@pytest.mark.parametrize("game", GAMES)
def test_the_solution_solves_every_task(game: str) -> None:
    env = small(game)
    for task in env.tasks("test")[:10]:
        step = env.reset(task, seed=0)
        while not step.done:
            step = env.step(f"Thought: none\nAction: {env.expert()}")
        assert step.success, task


def test_folds_share_no_task_and_sites_with_other_parameters_neither() -> None:
    env, other = small("coin"), TextWorld(game="coin", params={"numLocations": 4})
    ids = [{task.id for task in env.tasks(split)} for split in ("train", "test")]
    assert not ids[0] & ids[1]
    assert [len(one) for one in ids] == [100, 50]
    with pytest.raises(EnvError, match="no train task"):
        other.reset(env.tasks("train")[0], seed=0)


def test_a_text_that_is_no_action_costs_a_turn_and_changes_nothing() -> None:
    env = small("coin", max_turns=3)
    env.reset(env.tasks("train")[0], seed=0)
    possible = env.actions()
    answer = env.step("Action: fly to the moon")
    assert not answer.valid
    assert "'fly to the moon' is not possible here." in answer.observation
    assert env.actions() == possible
    assert [env.step("hm").done for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    "options", [{"game": "chess"}, {"params": {"rooms": 3}}, {"prompt": "long"}, {"max_turns": 0}]
)
def test_wrong_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        TextWorld(**options)


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MachineError, match="Java") as caught:
        simulator._machine(-1)
    assert caught.value.hint == "apt-get install openjdk-17-jre-headless"
