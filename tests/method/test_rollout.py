from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.agent.policy import BeatingPolicy, Dialogue, Reply, ScriptedPolicy
from fedse.envs.base import Step
from fedse.errors import EnvError
from fedse.method.rollout import (
    Game,
    choose_games,
    demonstrate,
    require_sound,
    rollout,
    scripted_episode,
)
from fedse.testing import CoinWorld
from fedse.types import Task

TASKS = CoinWorld(tasks=5).tasks("train")


class Fragile(CoinWorld):
    """Breaks in every second task, in reset or in step."""

    def reset(self, task: Task, *, seed: int) -> Step:
        if task.id.endswith("1"):
            raise KeyError("no such room")
        self.task = task
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Step:
        if self.task.id.endswith("3"):
            raise ZeroDivisionError
        return super().step(action)


class Counting:
    """Says heads in the second turn and counts how often it was asked."""

    name = "counting"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        self.batches.append(len(dialogues))
        return [
            Reply("heads" if d.turns or d.observation.endswith("0") else "tails") for d in dialogues
        ]


def play(make, policy, count=5, **options):
    games = choose_games(TASKS, count, seed=1)
    return games, rollout(games, make, policy, round=1, seed=1, **{"batch": 64, **options})


def test_all_open_episodes_advance_in_one_call_a_turn():
    policy = Counting()
    games, played = play(CoinWorld, policy)
    assert policy.batches == [5, 4]
    assert [episode.task for episode in played] == [game.task for game in games]
    assert all(episode.success for episode in played)


def test_the_batch_size_bounds_a_call():
    policy = Counting()
    play(CoinWorld, policy, batch=2)
    assert max(policy.batches) == 2


def test_the_turn_cap_truncates():
    _, played = play(CoinWorld, ScriptedPolicy(lambda d, s: "tails"), max_turns=2)
    assert {episode.outcome for episode in played} == {"truncated"}
    assert {len(episode.turns) for episode in played} == {2}


def test_a_full_context_truncates():
    class Full(Counting):
        def act(self, dialogues, *, seed):
            return [None for _ in dialogues]

    _, played = play(CoinWorld, Full())
    assert {episode.outcome for episode in played} == {"truncated"}


def test_a_broken_episode_is_data_and_names_its_cause():
    _, played = play(Fragile, ScriptedPolicy(lambda d, s: "heads"))
    by_task = {episode.task.id: episode for episode in played}
    assert by_task["train-1"].error == "coin.reset: KeyError: 'no such room'"
    assert by_task["train-3"].outcome == "broken"
    assert Counter(e.outcome for e in played) == {"success": 3, "broken": 2}


def test_too_many_broken_episodes_stop_with_the_first_cause():
    _, played = play(Fragile, ScriptedPolicy(lambda d, s: "heads"))
    broken = [episode for episode in played if episode.outcome == "broken"]
    sound = [episode for episode in played if episode.success]
    require_sound(played)
    require_sound([*broken, *sound[:2]])
    with pytest.raises(EnvError, match=r"2 of 3 episodes broke, the first in task 'train-[13]'"):
        require_sound([*broken, *sound[:1]])


def test_a_broken_policy_is_not_data():
    def broken(dialogue: Dialogue, seed: int) -> str:
        raise ValueError("out of ideas")

    with pytest.raises(ValueError, match="out of ideas"):
        play(CoinWorld, ScriptedPolicy(broken))


def test_games_pass_over_all_tasks_before_repeating_one():
    games = choose_games(TASKS, 12, seed=3)
    assert len({g.task.id for g in games[:5]}) == 5
    assert max(Counter(g.task.id for g in games).values()) == 3
    assert len({g.seed for g in games}) == 12
    assert games == choose_games(TASKS, 12, seed=3) != choose_games(TASKS, 12, seed=4)


@pytest.mark.parametrize("group", [1, 2, 3, 5, 20])
def test_games_of_a_group_are_the_same_game_and_as_many_as_asked_for(group: int):
    """The chosen tasks are those of lone games, each several times; with 1 nothing changes."""
    lone, games = choose_games(TASKS, 12, seed=3), choose_games(TASKS, 12, seed=3, group=group)
    assert games == [lone[place // group] for place in range(12)]


ids = st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=8, unique=True)


@given(ids, st.integers(0, 20), st.sampled_from([1, 2, 3]), st.integers(0, 5), st.data())
def test_a_task_drawn_apart_decides_about_no_game_of_another(
    names: list[str], count: int, group: int, seed: int, data: st.DataObject
):
    tasks = [Task(env="coin", id=name, split="train") for name in names]
    gone = data.draw(st.sampled_from(tasks))
    rest = [task for task in data.draw(st.permutations(tasks)) if task != gone]
    how = {"seed": seed, "group": group, "apart": True}
    with_it, without = (Counter(choose_games(t, count, **how)) for t in (tasks, rest))
    others = Counter({game: n for game, n in with_it.items() if game.task != gone})
    # A group that the count cuts off may be whole in one and not in the other.
    cut = count % group
    assert (others - without).total() <= cut
    assert with_it.total() == without.total() == count


def test_games_drawn_apart_pass_over_all_tasks_before_repeating_one():
    games = choose_games(TASKS, 12, seed=3, apart=True)
    assert len({g.task.id for g in games[:5]}) == len({g.task.id for g in games[5:10]}) == 5
    assert len({g.seed for g in games}) == 12
    assert games != choose_games(TASKS, 12, seed=3)
    assert {g.record for g in choose_games(TASKS, 12, seed=3, apart=True, record="r")} == {"r"}


def test_without_noise_games_are_the_ones_that_they_always_were():
    told = [(g.task.id[-1], g.seed % 1000) for g in choose_games(TASKS, 7, seed=3)]
    first = [("1", 775), ("4", 634), ("3", 106), ("2", 540), ("0", 545)]
    assert told == [*first, ("4", 175), ("0", 307)]


def test_demonstrations_are_successes_of_round_zero():
    shown = demonstrate(choose_games(TASKS, 4, seed=1), CoinWorld)
    assert [(e.success, e.round, e.policy) for e in shown] == [(True, 0, "expert")] * 4


class Closing(CoinWorld):
    """Ends every episode at the first word, and in every second task that is a defeat."""

    def reset(self, task: Task, *, seed: int) -> Step:
        self.lost = task.id.endswith(("1", "3"))
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Step:
        return Step("over", reward=0.5, done=True, success=not self.lost)


def test_an_episode_ends_as_the_world_says():
    games, played = play(Closing, ScriptedPolicy(lambda dialogue, seed: "heads"))
    lost = [game.task.id.endswith(("1", "3")) for game in games]
    assert sum(lost) == 2
    assert [e.outcome for e in played] == ["failure" if x else "success" for x in lost]
    assert [e.reward for e in played] == [0.5] * 5


def test_what_the_expert_does_not_solve_is_no_demonstration():
    games = choose_games(TASKS, 5, seed=1)
    shown = demonstrate(games, Closing)
    assert [e.task for e in shown] == [g.task for g in games if g.task.id[-1] not in "13"]
    assert len(shown) == 3


def test_a_world_without_an_expert_cannot_demonstrate():
    class Mute:
        name, system_prompt, max_turns = "mute", "", 1

        def tasks(self, split):
            return TASKS

        def reset(self, task, *, seed):
            return Step("")

        def step(self, action):
            return Step("", done=True)

        def close(self): ...

    with pytest.raises(EnvError, match="no scripted expert"):
        demonstrate(choose_games(TASKS, 1, seed=1), Mute)


class Breaks(CoinWorld):
    """Breaks in every task, in the method it was made for."""

    broken_in = "step"

    def reset(self, task: Task, *, seed: int) -> Step:
        return self._break("reset") or super().reset(task, seed=seed)

    def step(self, action: str) -> Step:
        return self._break("step") or super().step(action)

    def expert(self) -> str:
        return self._break("expert") or super().expert()

    def close(self) -> None:
        return self._break("close") or super().close()

    def _break(self, method: str) -> None:
        if method == self.broken_in:
            raise RuntimeError("closed")


@pytest.mark.parametrize("method", ["reset", "step", "expert"])
def test_demonstrations_that_all_break_name_environment_method_and_task(
    method: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Breaks, "broken_in", method)
    games = choose_games(TASKS, 4, seed=1)
    with pytest.raises(EnvError) as caught:
        demonstrate(games, Breaks, hint="fedse env check desk:Coin")
    assert str(caught.value) == (
        "environment 'coin': all 4 demonstrations broke, the first in task "
        f"{games[0].task.id!r} with coin.{method}: RuntimeError: closed"
    )
    assert caught.value.hint == "fedse env check desk:Coin"


def test_a_demonstration_that_breaks_is_left_out():
    shown = demonstrate(choose_games(TASKS, 5, seed=1), Fragile)
    assert sorted(episode.task.id for episode in shown) == ["train-0", "train-2", "train-4"]
    assert {episode.outcome for episode in shown} == {"success"}


def test_a_scripted_episode_that_breaks_is_data():
    game = Game(TASKS[3], 0)
    episode = scripted_episode(game, Fragile(), lambda env: env.expert(), name="expert")
    assert (episode.outcome, episode.error) == ("broken", "coin.step: ZeroDivisionError: ")
    assert [turn.action for turn in episode.turns] == ["heads"]


def test_a_world_that_breaks_when_it_is_closed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Breaks, "broken_in", "close")
    with pytest.raises(EnvError, match=r"^coin.close: RuntimeError: closed$"):
        play(Breaks, ScriptedPolicy(lambda d, s: "heads"))


def test_every_answer_of_a_world_is_a_sign_of_life():
    beats: list[int] = []
    _, played = play(CoinWorld, Counting(), beat=lambda: beats.append(1))
    assert len(beats) == len(played) + sum(len(episode.turns) for episode in played)


def test_a_watched_policy_says_the_same_and_tells_of_each_call():
    beats, policy = [], Counting()
    watched = BeatingPolicy(policy, lambda: beats.append(1))
    assert watched.name == "counting"
    assert play(CoinWorld, watched) == play(CoinWorld, Counting())
    assert len(beats) == len(policy.batches)
