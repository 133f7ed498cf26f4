"""BabyAI: published levels, texts and rules, disjoint splits, an expert that keeps its promise."""

from typing import Any

import pytest

from tests.needs import needs

needs("minigrid")

from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.envs.base import Env, ExpertEnv, make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError
from fedse.types import Task
from fedse_worlds.babyai.env import SYSTEM_PROMPTS, BabyAI, short_goal
from fedse_worlds.babyai.levels import LEVELS, PRESETS, gym_id, level_names
from fedse_worlds.babyai.moves import Move, move_of
from fedse_worlds.babyai.view import full_view, look
from fedse_worlds.babyai.world import open_level
from tests.envs.kept import assert_all_kept

# Doors, keys, boxes and several rooms: every action has something to act on.
RICH_LEVEL = st.sampled_from(["MiniBossLevel", "SynthS5R2", "UnlockPickupDist", "GoToSeqS5R2"])
FEW = settings(max_examples=25, deadline=None)


def started(task_id: str, **options: Any) -> BabyAI:
    level = task_id.partition("/")[0]
    game = BabyAI(levels=level, **options)
    game.reset(Task(env="babyai", id=task_id, split="train"), seed=0)
    return game


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(make_env("babyai"), Env)
    assert isinstance(BabyAI(), ExpertEnv)


def test_levels_have_the_published_numbers() -> None:
    assert len(set(LEVELS)) == 40
    assert level_names([1, "BossLevelNoUnlock", 2, 1]) == (
        "GoToRedBallGrey", "BossLevelNoUnlock", "GoToRedBall",
    )  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_opens_and_shows_its_goal(level: str) -> None:
    game = BabyAI(levels=level)
    step = game.reset(game.tasks("test")[0], seed=0)
    assert step.observation.startswith("Your goal: ")
    assert "Available actions: [turn left, turn right" in step.observation
    assert game.expert() in game.actions()


@pytest.mark.parametrize("per_level", [(1, 1), (7, 3), (40, 10)])
def test_a_seed_is_in_one_split_whatever_the_options(per_level: tuple[int, int]) -> None:
    game, wide = BabyAI(seeds_per_level=per_level), BabyAI(levels="all", seeds_per_level=(60, 20))
    train, test = ({task.id for task in game.tasks(split)} for split in ("train", "test"))
    assert len(train) == per_level[0] * len(PRESETS["one_room"])
    assert not train & {task.id for task in wide.tasks("test")}
    assert test <= {task.id for task in wide.tasks("test")}


@FEW
@given(RICH_LEVEL, st.integers(0, 30).filter(lambda seed: seed % 5 != 4), st.data())
def test_equal_actions_give_equal_episodes_whatever_the_seed(
    level: str, seed: int, data: st.DataObject
) -> None:
    one, other = started(f"{level}/{seed}"), BabyAI(levels=level)
    other.reset(Task(env="babyai", id=f"{level}/{seed}", split="train"), seed=99)
    for _ in range(8):
        action = data.draw(st.sampled_from(one.actions()))
        step = one.step(action)
        assert step == other.step(action)
        if step.done:
            break
        assert one.expert() == one.expert() == other.expert()


ACTION_LIKE = st.sampled_from(
    ["go to", "go to red ball", "pick up door 1", "toggle", "drop", "open 99", "pickup 1 1",
     "go through red door 1", "Action: check available actions", "turn left.", "go to a 999999"]
)  # fmt: skip


@FEW
@given(
    RICH_LEVEL,
    st.sampled_from(["full", "short"]),
    st.booleans(),
    st.lists(st.one_of(st.text(), ACTION_LIKE), min_size=1, max_size=9),
)
def test_no_sequence_of_texts_raises(
    level: str, prompt: str, shown: bool, texts: list[str]
) -> None:
    game = started(f"{level}/7", prompt=prompt, show_actions=shown)
    for text in texts:
        step = game.step(text)
        assert step.success == (step.reward == 1.0)
        assert step.done or (step.observation and not step.success)
        if step.done:
            break


@FEW
@given(RICH_LEVEL, st.integers(0, 30).filter(lambda seed: seed % 5 != 4), st.data())
def test_an_action_ends_with_the_first_primitive_that_changes_nothing(
    level: str, seed: int, data: st.DataObject
) -> None:
    game, twin = started(f"{level}/{seed}"), open_level(gym_id(level), seed)
    for _ in range(5):
        action = data.draw(st.sampled_from(game.actions()))
        move = move_of(action, look(twin), short=False)
        for primitive in move.primitives if isinstance(move, Move) else ():
            if not twin.act(primitive) or twin.over:
                break
        assert game.step(action).done == twin.over
        if twin.over:
            break
        assert game._world is not None
        assert game._world.pose == twin.pose
        assert full_view(look(game._world)) == full_view(look(twin))


def test_known_texts() -> None:
    game = BabyAI(levels="UnlockPickupDist")
    task = Task(env="babyai", id="UnlockPickupDist/0", split="train")
    assert game.reset(task, seed=0).observation == (
        "Your goal: pick up the purple box.\n"
        "There is a green locked door 1 1 steps to your left. The room has walls around you. "
        "You are facing a wall 1 steps away. You are not carrying anything.\n"
        "Available actions: [turn left, turn right, go to green locked door 1, "
        "toggle and go through green locked door 1, check available actions]"
    )
    assert game.step(
        "Thought: try it.\nAction: toggle and go through green door 1"
    ).observation == (
        "You stopped early: nothing in front of you opens or closes; a locked door needs the key "
        "of its colour.\n"
        "There is a green key 1 1 steps to your left. There is a green locked door 1 right in "
        "front of you 1 steps away. The room has walls around you. You are not carrying "
        "anything.\n"
        "Available actions: [turn left, turn right, toggle, go to green key 1, pick up green key "
        "1, go to green locked door 1, toggle and go through green locked door 1, check available "
        "actions]"
    )
    short = BabyAI(levels="UnlockPickupDist", prompt="short")
    assert short.reset(task, seed=0).observation == (
        "pick up purple box; green door locked left 1, wall 1"
    )
    assert short.step("open green door").observation == (
        "no; pick up purple box; green key left 1, green door locked front 1"
    )
    assert short.step("check available actions").observation.startswith("can left, right, toggle")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fly", "that is no action"),
        ("left", "that is no action"),
        ("go to green door 2", "there is no green door 2 in sight"),
        ("pick up green locked door 1", "a door cannot be picked up"),
        ("go through green door", "the green door is locked"),
        ("move forward", "something is in the way"),
        ("drop", "that takes something in your hands"),
        ("toggle", "nothing in front of you opens or closes"),
    ],
)
def test_what_does_nothing_says_why(text: str, why: str) -> None:
    game = started("UnlockPickupDist/0")
    assert game.step(text).observation.startswith(f"Nothing happened: {why}")


@pytest.mark.parametrize("verb", ["pick up", "pickup", "Pick up the"])
def test_picking_up_is_understood_as_published_and_as_prompted(verb: str) -> None:
    game = started("UnlockPickupDist/1", show_actions=False)
    step = game.step(f"{verb} yellow key 1")
    understood = verb != "Pick up the"
    assert step.observation.endswith("You are carrying a yellow key.") == understood


@pytest.mark.parametrize(
    ("mission", "short"),
    [
        ("go to the red ball", "go to red ball"),
        ("open a door in front of you", "open door front"),
        ("pick up the box on your left, then go to a key", "pick up box left then go to key"),
        ("open the door behind you after you go to a ball", "open door behind after go to ball"),
    ],
)
def test_short_goals_keep_order_and_place(mission: str, short: str) -> None:
    assert short_goal(mission) == short


def test_the_short_text_tells_a_far_object_the_goal_speaks_of() -> None:
    game = BabyAI(levels="GoToRedBall", prompt="short")
    told = game.reset(Task(env="babyai", id="GoToRedBall/0", split="train"), seed=0).observation
    assert told == (
        "go to red ball; yellow key front 1 left 1, grey ball front 1 right 1, "
        "purple key front 2 left 1, red ball front 4 right 3, wall 6"
    )


def test_success_is_reward_one_and_the_turns_run_out() -> None:
    game = started("GoToRedBall/0", max_turns=2)
    assert game.step("go to red ball 1")[:5] == ("Success", 1.0, True, True, True)
    game = started("GoToRedBall/0", max_turns=2)
    game.step("nonsense")
    assert game.step("nonsense")[:5] == ("Failure", 0.0, True, False, False)
    for ask in (game.expert, game.actions, lambda: game.step("turn left")):
        with pytest.raises(EnvError):
            ask()


def test_foreign_tasks_are_refused() -> None:
    for task_id, split in (("GoToRedBall/4", "train"), ("BossLevel/0", "train"), ("x", "test")):
        with pytest.raises(EnvError, match=task_id):
            BabyAI().reset(Task(env="babyai", id=task_id, split=split), seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"levels": "GoToMoon"}, {"levels": 41}, {"levels": True}, {"levels": []}, {"prompt": "long"},
     {"max_turns": 0}, {"seeds_per_level": [3]}, {"seeds_per_level": [3, 0]}],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))) as caught:
        BabyAI(**options)
    assert caught.value.hint


@pytest.mark.parametrize("prompt", sorted(SYSTEM_PROMPTS))
def test_keeps_every_promise(prompt: str) -> None:
    assert_all_kept(check_env("babyai", {"prompt": prompt}))


@pytest.mark.slow
@pytest.mark.parametrize("prompt", sorted(SYSTEM_PROMPTS))
def test_keeps_every_promise_on_200_tasks(prompt: str) -> None:
    report = check_env("babyai", {"prompt": prompt}, tasks=200)
    assert report.ok, [check for check in report.checks if not check.ok]


@pytest.mark.slow
def test_the_expert_solves_what_takes_long_when_given_time() -> None:
    """All levels but the one that minigrid itself makes unsolvable (see babyai_levels)."""
    levels = [level for level in LEVELS if level != "OpenDoorsOrderN4Debug"]
    game = BabyAI(levels=levels, seeds_per_level=(3, 1), max_turns=100, prompt="short")
    solved = 0
    for task in game.tasks("train"):
        step = game.reset(task, seed=0)
        while not step.done:
            step = game.step(game.expert())
        solved += step.success
    assert solved >= 0.95 * len(game.tasks("train"))
