"""A relabelled failure is a success of another training task, word for word as it is played."""

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.envs.base import ExpertEnv, HindsightEnv, make_env
from fedse.errors import EnvError
from fedse.method.rollout import Game, scripted_episode
from fedse.method.select import OwnRecord
from fedse.testing import CoinWorld
from fedse.types import Split, Task, Trajectory, Turn
from fedse_variants.hindsight import allowed_tasks, hindsight, play_again, relabelled
from tests.needs import needs

needs("fedse_worlds")

WORLDS: dict[str, dict[str, object]] = {
    "babyai": {"levels": "one_room", "seeds_per_level": [4, 2], "max_turns": 6},
    "textcraft": {"depths": [1, 2, 3], "max_turns": 9},
    "webshop": {"products": 60, "option_axes": 0, "strict_options": True},
}
SHORT = {name: {**options, "prompt": "short"} for name, options in WORLDS.items()}
SHORT["webshop"]["copying"] = False
# Of 40 clumsy games, how many failed, and how many of those reached another goal.
COUNTED = {"babyai": (14, 12), "textcraft": (15, 9), "webshop": (15, 4)}


def clumsy(env: ExpertEnv, split: Split, seed: int, *, skill: float) -> Trajectory:
    """An episode in which the expert, who pursues another task's goal, is followed now and then."""
    random = Random(seed)
    tasks = env.tasks(split)

    def choose(world: ExpertEnv) -> str:
        return world.expert() if random.random() < skill else random.choice(world.actions())

    game = Game(tasks[seed % len(tasks)], seed)
    return scripted_episode(game, env, choose, name="clumsy")


def failures(name: str, split: Split, *, count: int = 40) -> list[Trajectory]:
    env = make_env(name, WORLDS[name])
    played = [clumsy(env, split, seed, skill=0.4) for seed in range(count)]
    return [episode for episode in played if not episode.success]


def assert_replays(found: Trajectory, env: HindsightEnv) -> None:
    """An agent with that goal sees this, and its last action is a success."""
    step = env.reset(found.task, seed=found.seed)
    for turn in found.turns:
        assert not step.done
        assert turn.observation == step.observation
        step = env.step(turn.action)
    assert step.done
    assert step.success
    assert (found.outcome, found.reward) == ("success", step.reward)


@pytest.mark.parametrize("name", WORLDS)
def test_some_failures_have_something_to_teach(name: str):
    env = make_env(name, WORLDS[name])
    allowed = allowed_tasks(env, env.tasks("train"))
    lost = failures(name, "train")
    found = [f for episode in lost if (f := relabelled(episode, env, allowed))]
    assert (len(lost), len(found)) == COUNTED[name]


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(WORLDS)), short=st.booleans(), seed=st.integers(0, 10_000))
def test_what_is_relabelled_is_what_its_world_would_have_said(name, short, seed):
    options = (SHORT if short else WORLDS)[name]
    env = make_env(name, options)
    assert isinstance(env, HindsightEnv)
    episode = clumsy(env, "train", seed, skill=0.3)
    found = relabelled(episode, env, allowed_tasks(env, env.tasks("train")))
    if found is None:
        return
    assert_replays(found, make_env(name, options))
    said = [turn.action for turn in episode.turns]
    assert [turn.action for turn in found.turns] == said[: len(found.turns)]
    assert (found.seed, found.round, found.policy) == (episode.seed, 0, "clumsy")
    assert found.task.split == "train"
    assert found.task.id not in {task.id for task in env.tasks("test")}
    if name == "babyai":
        world = "/".join(found.task.id.split("/")[:2])
        assert world == episode.task.id
    else:
        assert found.task in env.tasks("train")


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_of_the_test_split_is_made(name: str):
    """Neither from a held-out game, nor is a held-out task named for any game."""
    env = make_env(name, WORLDS[name])
    allowed = allowed_tasks(env, env.tasks("train"))
    held_out = {task.id for task in env.tasks("test")}
    for episode in failures(name, "test", count=20):
        assert relabelled(episode, env, allowed) is None
        for task in env.reached(episode):
            assert task.split == "train"
            assert task.id not in held_out


def test_the_test_products_and_goals_are_met_and_not_named():
    """The expert of a test task reaches its goal, which is no training task's."""
    for name in ("textcraft", "webshop"):
        env = make_env(name, WORLDS[name])
        for number, task in enumerate(env.tasks("test")[:20]):
            episode = scripted_episode(Game(task, number), env, lambda e: e.expert(), name="e")
            assert episode.success
            assert task.id not in {reached.id for reached in env.reached(episode)}


def test_a_client_gets_tasks_of_its_own_part_only():
    env = make_env("textcraft", WORLDS["textcraft"])
    own = env.tasks("train")[::3]
    allowed = allowed_tasks(env, own)
    made = [relabelled(e, env, allowed) for e in failures("textcraft", "train", count=120)]
    found = [episode.task for episode in made if episode]
    assert found
    assert set(found) <= set(own)


def test_a_mission_can_be_wished_for_in_a_training_world_only():
    env = make_env("babyai", WORLDS["babyai"])
    task = next(t for t in env.tasks("train") if t.id.startswith("GoToRedBall/"))
    wished = task.model_copy(update={"id": f"{task.id}/go to red ball"})
    assert "Your goal: go to the red ball." in env.reset(wished, seed=0).observation
    held_out = next(t for t in env.tasks("test") if t.id.startswith("GoToRedBall/"))
    for id, split in (
        (f"{held_out.id}/go to red ball", "train"),
        (f"{held_out.id}/go to red ball", "test"),
        (f"{task.id}/fly to red ball", "train"),
        (f"{task.id}/pick up red door", "train"),
        (f"{task.id}/go to red ball", "test"),
        (f"{task.id}/", "train"),
    ):
        with pytest.raises(EnvError, match="babyai has no"):
            env.reset(Task(env="babyai", id=id, split=split), seed=0)
    bare = next(t for t in env.tasks("train") if t.id.startswith("GoToRedBallNoDists/"))
    for wish, why in (("go to blue key", "no object matching"), ("go to pink ball", "pink")):
        with pytest.raises(EnvError, match=why):
            env.reset(bare.model_copy(update={"id": f"{bare.id}/{wish}"}), seed=0)


class Forgetful(CoinWorld):
    """Names tasks, and breaks when asked about some."""

    def reached(self, episode: Trajectory) -> list[Task]:
        if episode.seed:
            raise RuntimeError("no idea")
        return [*self.tasks("test"), *self.tasks("train")]


SAID = (Turn(observation="train-1", action="tails"), Turn(observation="2 left", action="heads"))
LOST = Trajectory(
    task=Task(env="coin", id="train-1", split="train"), seed=0, turns=SAID, outcome="failure",
    reward=0.0, policy="p", round=3,
)  # fmt: skip


def test_a_wrong_hint_and_an_error_teach_nothing():
    env = Forgetful()
    allowed = allowed_tasks(env, env.tasks("train"))
    found = relabelled(LOST, env, allowed)
    assert found is not None
    assert found.task.id == "train-0"
    assert found.turns[0].observation == "train-0"
    assert relabelled(LOST.model_copy(update={"seed": 1}), env, allowed) is None
    missed = LOST.model_copy(update={"turns": SAID[:1]})
    assert play_again(missed, found.task, env) is None


def test_the_agents_tokens_stay_and_the_worlds_are_made_anew():
    """The context of a relabelled turn is of other words, so its old tokens are wrong."""
    turns = tuple(
        turn.model_copy(update={"context_ids": (1, 2), "action_ids": (7, 8)}) for turn in SAID
    )
    env = Forgetful()
    again = partial(play_again, LOST.model_copy(update={"turns": turns}))
    found = again(env.tasks("train")[0], env)
    assert found is not None
    assert [(turn.context_ids, turn.action_ids) for turn in found.turns] == [((), (7, 8))] * 2


def test_successes_stay_and_the_rest_is_asked_for_by_its_goal():
    """Of a broken episode nothing is kept; the environment is made once, and closed."""
    made: list[Forgetful] = []

    def make_env() -> Forgetful:
        made.append(Forgetful())
        return made[-1]

    won, broken, no_idea = (
        LOST.model_copy(update=change)
        for change in ({"outcome": "success"}, {"outcome": "broken"}, {"seed": 1})
    )
    record = OwnRecord({}, {}, {}, make_env, CoinWorld().tasks("train"))
    found = hindsight([won, broken, LOST, no_idea, LOST], record=record)
    assert [(episode.task.id, episode.success) for episode in found] == [
        ("train-1", True),
        ("train-0", True),
        ("train-0", True),
    ]
    (env,) = made
    with pytest.raises(EnvError, match="no episode is open"):
        env.step("heads")
    assert hindsight([won], record=record) == (won,)
    assert len(made) == 1
