"""Which of a round's games can be compared, and what a loss that compares them is given."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from fedse.config.schema import BufferSection, ClientSection, Config, RolloutSection
from fedse.config.training import TrainSection, WarmstartSection
from fedse.events import silent
from fedse.method.counts import count_groups
from fedse.method.lessons import groups_of, mixed_groups
from fedse.method.rounds import client_round
from fedse.site.open import add_demonstrations
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.train import loss as losses
from fedse.train.loss import Loss, loss_of
from fedse.types import Task, Trajectory, Turn

SAID = (Turn(observation="?", action="!"),)


def game(task: str, reward: float, turns: tuple[Turn, ...] = SAID, **facts: object) -> Trajectory:
    told = {"seed": 0, "outcome": "failure", "policy": "p", "round": 1, **facts}
    own = Task(env="coin", id=task, split="train")
    return Trajectory(task=own, reward=reward, turns=turns, **told)


PLAYED = [
    game("equal", 1.0), game("mixed", 0.0), game("equal", 1.0), game("mixed", 0.5),
    game("lone", 1.0), game("silent", 0.0, ()), game("silent", 1.0),
    game("broken", 0.0, outcome="broken"), game("broken", 1.0), game("mixed", 0.0),
]  # fmt: skip


def test_games_are_compared_where_rewards_of_a_task_differ():
    """What broke, or in which nothing was said, is no game to compare with."""
    assert {task.id: len(games) for task, games in groups_of(PLAYED).items()} == {
        "equal": 2, "mixed": 3, "lone": 1, "silent": 1, "broken": 1,
    }  # fmt: skip
    (games,) = mixed_groups(PLAYED).values()
    assert games == [PLAYED[1], PLAYED[3], PLAYED[9]]
    assert count_groups(PLAYED) == {"groups": 2, "mixed": 1}
    assert mixed_groups([]) == {}


class Fresh(Loss):
    """Compares four games of a task."""

    group, fresh, explored = 4, True, True


@pytest.mark.parametrize("warm", [0, 1])
def test_a_fresh_loss_gets_the_games_of_the_round_and_no_others(tmp_path: Path, warm: int):
    """Not in the warm start, which has none; there the buffer's lessons are learned from."""
    config = Config(
        train=TrainSection(),
        warmstart=WarmstartSection(rounds=warm),
        buffer=BufferSection(demonstrations=3),
        rollout=RolloutSection(episodes=20),
        clients=(ClientSection(name="a", env="fedse.testing:CoinWorld"),),
    )
    taught: list[Sequence[Trajectory]] = []
    played: list[Trajectory] = []
    site = open_toy_site(config, "a", tmp_path, clock=lambda: 0.0)

    def fit(start, lessons, *rest):
        taught.append(list(lessons))
        return site.fit(start, lessons, *rest)

    def play(*args, **options):
        played.extend(site.play(*args, **options))
        return played

    add_demonstrations(site, config)
    with patch.object(losses, "LOSSES", {"sft": Fresh}):
        watched = replace(site, fit=fit, play=play)
        start = toy_adapter(toy_spec(), 1)
        told = client_round(start, watched, config, round=1, emit=silent).stats
    (lessons,) = taught
    if warm:
        assert {lesson.round for lesson in lessons} == {0}
        assert (told.groups, told.mixed) == (0, 0)
        return
    expected = [one for games in mixed_groups(played).values() for one in games]
    assert lessons == expected
    assert {len(games) for games in groups_of(played).values()} <= {4, 8}
    assert (told.groups, told.mixed, told.buffered) == (
        len(groups_of(played)), len(mixed_groups(played)), len(expected),
    )  # fmt: skip


def test_a_fit_that_is_independent_of_any_round_does_not_use_it():
    settings = TrainSection()
    with patch.object(losses, "LOSSES", {"sft": Fresh}):
        kinds = [type(loss_of(settings, **how)) for how in ({}, {"alone": True}, {"warm": True})]
    assert kinds == [Fresh, Loss, Loss]
