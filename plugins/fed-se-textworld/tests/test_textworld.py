"""TextWorldExpress: every game keeps its contract, its folds are apart, its solutions solve it."""

import shutil
from collections.abc import Mapping

import pytest

from tests.needs import needs

needs("java", "py4j", "textworld_express")

from fedse.envs.base import Env, ExpertEnv, Step
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError, MachineError
from fedse.types import Task
from fedse_textworld import simulator
from fedse_textworld.env import TextWorld
from fedse_textworld.kinds import GAMES
from fedse_textworld.solutions import solve
from tests.envs.kept import assert_all_kept

KITCHEN = {"numLocations": 1, "numIngredients": 1, "numDistractorItems": 0, "includeDoors": 0}
SMALL: Mapping[str, Mapping[str, int]] = {
    "coin": {"numLocations": 4},
    "cookingworld": KITCHEN,
    "mapreader": {"numLocations": 5, "maxDistanceApart": 2},
    "twc": {"numLocations": 1, "numItemsToPutAway": 1},
}
"""Parameters with which the solution is short."""
EACH = [{"game": game, "params": SMALL.get(game, {})} for game in GAMES]
HEATED = {"fry": "stove", "roast": "oven", "grill": "toaster"}
"""What the recipe says, and where it is done in a kitchen alone."""


def cooking(word: str) -> dict[str, object]:
    return {"game": "cookingworld", "params": KITCHEN, "words": [word]}


def played(env: TextWorld, task: Task) -> tuple[Step, list[str]]:
    """The end of the expert's episode, and what it did."""
    step, done = env.reset(task, seed=0), list[str]()
    while not step.done:
        done.append(env.expert())
        step = env.step(f"Thought: none\nAction: {done[-1]}")
    return step, done


@pytest.mark.parametrize(
    "options", [{"prompt": "full"}, {"prompt": "short", "begin": 3}], ids=["full", "short"]
)
def test_all_games_keep_every_promise(options: dict[str, object]) -> None:
    options |= {"games": EACH, "tasks_per_kind": [1, 1], "max_turns": 12}
    assert_all_kept(check_env("textworld", options, tasks=8, hash_seeds=(1,)))


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(TextWorld(), Env)
    assert isinstance(TextWorld(), ExpertEnv)


@pytest.mark.slow
def test_the_solution_solves_every_task_as_published() -> None:
    env = TextWorld(games=GAMES, prompt="short", tasks_per_kind=[6, 6])
    for split in ("train", "test"):
        assert len(env.tasks(split)) == 6 * len(GAMES)
        assert all(played(env, task)[0].success for task in env.tasks(split))


def test_what_shows_nothing_new_and_leads_back_is_not_in_a_solution() -> None:
    with simulator.borrowed("twc", "") as game:
        whole = game.solution("train", 0)
    moves = [move.action for move in solve("twc", "", "train", 0).moves]
    assert whole[0] == "look around"
    assert len(moves) < len(whole)
    assert set(whole) - set(moves) >= {"look around"}


def test_a_recipe_is_read_though_that_changes_nothing() -> None:
    moves = [move.action for move in solve("cookingworld", "", "train", 1).moves]
    assert "read cookbook" in moves


def test_folds_share_no_task_and_neither_do_sites_with_other_parameters() -> None:
    env, other = TextWorld(games=EACH[1], tasks_per_kind=[20, 10]), TextWorld(games="coin")
    ids = [{task.id for task in env.tasks(split)} for split in ("train", "test")]
    assert not ids[0] & ids[1]
    assert [len(one) for one in ids] == [20, 10]
    with pytest.raises(EnvError, match="no train task 'coin,numLocations=4/0'"):
        other.reset(env.tasks("train")[0], seed=0)
    with pytest.raises(EnvError, match="no test task"):
        env.reset(env.tasks("train")[0].model_copy(update={"split": "test"}), seed=0)


def test_words_choose_tasks_by_what_their_solutions_do_and_read() -> None:
    for word, place in HEATED.items():
        env = TextWorld(games=cooking(word), tasks_per_kind=[3, 3])
        for task in [*env.tasks("train"), *env.tasks("test")]:
            end, done = played(env, task)
            assert end.success
            assert [action for action in done if action.endswith(f" in {place}")]
    other = cooking("fry") | {"words": ["not fry", "not roast", "not grill"]}
    env = TextWorld(games=other, tasks_per_kind=[3, 3])
    assert not [a for task in env.tasks("train") for a in played(env, task)[1] if " in " in a]


def test_the_test_tasks_can_be_of_a_kind_that_nobody_trains_in() -> None:
    new = [cooking("grill"), "coin"]
    few = {"held_out": new, "tasks_per_kind": [4, 2]}
    sites = [TextWorld(games=cooking(word), **few) for word in ("fry", "roast")]
    trained = [{task.id.partition("/")[0] for task in site.tasks("train")} for site in sites]
    assert not trained[0] & trained[1]
    assert sites[0].tasks("test") == sites[1].tasks("test")
    kinds = [task.id.partition("/")[0].rpartition(",")[2] for task in sites[0].tasks("test")]
    assert kinds == ["grill", "coin", "grill", "coin"]


def test_an_episode_can_begin_a_few_actions_before_its_end() -> None:
    options = {"begin": 3, "max_turns": 3, "tasks_per_kind": [5, 5]}
    env = TextWorld(games=cooking("grill"), prompt="short", **options)
    for task in env.tasks("train"):
        first = env.reset(task, seed=0).observation
        food = first.split("; ")[1].partition(":")[0]
        assert first.startswith(f"cook and eat; {food}: ")
        assert f"grill {food}; prepare meal; kitchen: stove; oven; " in first
        end, done = played(env, task)
        assert done == [f"cook {food} in toaster", "prepare meal", "eat meal"]
        assert end == Step("You eat the meal.  It is delicious.", 1.0, done=True, success=True)


def test_an_episode_can_begin_with_the_first_action_of_some_verb() -> None:
    options = {"begin": ["chop", "slice", "dice", "cook"], "max_turns": 4, "tasks_per_kind": [5, 5]}
    env = TextWorld(games=cooking("roast"), prompt="short", **options)
    for task in env.tasks("train"):
        end, done = played(env, task)
        assert end.success
        *cut, cook, prepare, eat = done
        assert [action.split()[0] for action in cut] in ([], ["chop"], ["slice"], ["dice"])
        assert (cook.split()[0], prepare, eat) == ("cook", "prepare meal", "eat meal")


def test_no_two_tasks_begin_and_are_solved_alike() -> None:
    env = TextWorld(games=cooking("grill"), begin=3, tasks_per_kind=[9, 9])
    tasks = env.tasks("train")
    numbers = [int(task.id.rpartition("/")[2]) for task in tasks]
    assert numbers[:2] != [0, 1]
    assert len({env.reset(task, seed=0).observation for task in tasks}) == len(tasks)


def test_a_text_that_is_no_action_costs_a_turn_and_changes_nothing() -> None:
    env = TextWorld(games=EACH[1], max_turns=8, tasks_per_kind=[1, 1])
    env.reset(env.tasks("train")[0], seed=0)
    possible = env.actions()
    answer = env.step("Action: fly to the moon")
    assert (answer.valid, answer.done) == (False, False)
    assert answer.observation.startswith("'fly to the moon' is not possible here.\nYou are in ")
    assert env.actions() == possible
    assert env.step(f"Action: {possible[0].upper()}.").valid
    assert [env.step("hm").done for _ in range(6)] == [False] * 5 + [True]


def test_what_is_possible_is_listed_where_that_is_asked_for() -> None:
    for prompt, shown, listed in [
        ("full", None, True),
        ("full", False, False),
        ("short", None, False),
        ("short", True, True),
    ]:
        env = TextWorld(games=EACH[1], prompt=prompt, show_actions=shown, tasks_per_kind=[1, 1])
        first = env.reset(env.tasks("train")[0], seed=0).observation
        line = f"Possible actions: {', '.join(env.actions())}"
        assert (first.splitlines()[-1] == line) == listed


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"games": "chess"}, "games must be one of arithmetic, "),
        ({"games": []}, "games must be at least one game"),
        ({"held_out": {"game": "coin", "rooms": 3}}, "held_out must be one of"),
        ({"games": {"game": "coin", "params": {"rooms": 3}}}, "games.params must be valid"),
        ({"games": {"game": "coin", "params": {"numLocations": 99}}}, "games.params must be"),
        ({"games": {"game": "coin", "params": {"numLocations": "3"}}}, "whole numbers"),
        ({"games": {"game": "coin", "words": "east"}}, "games.words must be a list"),
        ({"prompt": "long"}, "prompt"),
        ({"max_turns": 0}, "max_turns"),
        ({"begin": 0}, "begin must be a whole number above 0 or a list of verbs"),
        ({"begin": "cook"}, "begin must be"),
        ({"begin": []}, "begin must be"),
        ({"tasks_per_kind": [3]}, "tasks_per_kind"),
        ({"tasks_per_kind": [3, 0]}, "tasks_per_kind"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        TextWorld(**options)


@pytest.mark.parametrize(
    "options", [{"max_turns": 1}, {"games": {"game": "peckingorder", "words": ["swim"]}}]
)
def test_a_kind_without_tasks_is_an_error(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedse_textworld.kinds.seeds_of", lambda game, split: (0, 1))
    with pytest.raises(ConfigError, match="no train task of"):
        TextWorld(**{"games": "peckingorder", **options}).tasks("train")


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MachineError, match="Java") as caught:
        simulator._machine(-1)
    assert caught.value.hint == "apt-get install openjdk-17-jre-headless"
