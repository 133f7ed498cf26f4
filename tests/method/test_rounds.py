"""One client's round: which games it plays, what it learns from, what it starts from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedse.config.judging import EvalSection
from fedse.config.schema import BufferSection, ClientSection, Config, RolloutSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.events import silent
from fedse.method.evaluate import client_eval
from fedse.method.rollout import Game
from fedse.method.rounds import client_round
from fedse.method.site import Site
from fedse.testing import CoinWorld, open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, Fitted, Split, Task, Trajectory

CURRENT = toy_adapter(toy_spec(), 1)
CLIENTS = tuple(ClientSection(name=name, env="fedse.testing:CoinWorld") for name in ("a", "b"))
CONFIG = Config(
    rollout=RolloutSection(episodes=20),
    eval=EvalSection(episodes=6),
    buffer=BufferSection(keep_played=False),
    clients=CLIENTS,
)


class Watched:
    """A toy site that keeps which games were played, and from what it was trained."""

    def __init__(self, home: Path, config: Config = CONFIG, client: str = "a") -> None:
        opened = open_toy_site(config, client, home / client, clock=lambda: 0.0)
        self._play, self._fit = opened.play, opened.fit
        self.games: list[list[Game]] = []
        self.fits: list[tuple[str, list[Trajectory], int]] = []
        self.site: Site = replace(opened, play=self.play, fit=self.fit)
        self.config = config

    def play(self, games: Sequence[Game], *args: Any, **options: Any) -> list[Trajectory]:
        self.games.append(list(games))
        return self._play(games, *args, **options)

    def fit(
        self,
        start: Adapter,
        lessons: Sequence[Trajectory],
        settings: TrainSection,
        seed: int,
        *course: Course,
    ) -> Fitted:
        self.fits.append((start.digest, list(lessons), seed))
        return self._fit(start, lessons, settings, seed, *course)

    def round(self, number: int, current: Adapter = CURRENT) -> Adapter | None:
        return client_round(current, self.site, self.config, round=number, emit=silent).adapter

    def measure(self, number: int) -> list[Game]:
        client_eval(CURRENT, self.site, self.config, round=number, emit=silent)
        return self.games[-1]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_the_held_out_games_are_of_the_held_out_tasks_and_the_same_in_every_round(
    watched: Watched, tmp_path: Path
):
    first, later = watched.measure(1), watched.measure(7)
    assert [game.task.split for game in first] == ["test"] * 6
    assert len({game.task.id for game in first}) == 6
    assert first == later
    assert first != Watched(tmp_path, client="b").measure(1)


def test_every_round_explores_other_games_of_the_training_tasks(watched: Watched, tmp_path: Path):
    watched.round(1)
    watched.round(2)
    first, second = watched.games
    assert {game.task.split for game in (*first, *second)} == {"train"}
    assert len(first) == len(second) == 20
    assert set(first).isdisjoint(second)
    again = Watched(tmp_path / "again")
    again.round(1)
    assert again.games == [first]


def test_it_starts_from_the_global_adapter_and_learns_from_all_that_ever_worked(watched: Watched):
    other = toy_adapter(toy_spec(), 2)
    own = watched.round(1)
    assert own is not None
    assert own.digest != CURRENT.digest
    watched.round(2, other)
    (start, lessons, seed), (later_start, all_lessons, later_seed) = watched.fits
    assert (start, later_start) == (CURRENT.digest, other.digest)
    assert all_lessons[: len(lessons)] == lessons
    assert {lesson.round for lesson in all_lessons} == {1, 2}
    assert all(lesson.success for lesson in all_lessons)
    assert seed != later_seed


def test_who_has_nothing_to_learn_from_is_not_trained_and_has_no_vote(tmp_path: Path):
    idle = CONFIG.model_copy(update={"rollout": RolloutSection(episodes=0)})
    watched = Watched(tmp_path, idle)
    assert watched.round(1) is None
    assert watched.fits == []


class Shorter(CoinWorld):
    """Lacks the first of its tasks."""

    def tasks(self, split: Split) -> Sequence[Task]:
        return super().tasks(split)[1:]


def test_where_noise_hides_a_unit_no_task_decides_about_the_games_of_others(tmp_path: Path):
    """Demonstrations included; without noise a task less shuffles all of them."""
    changed = {}
    for noise in (True, False):
        raw = {"rollout": {"episodes": 8}, "buffer": {"demonstrations": 4}}
        privacy = {"privacy": {"epsilon": 8.0, "noise": 1.0}} if noise else {}
        both = []
        for env in ("Shorter", "CoinWorld"):
            own = {"env": f"tests.method.test_rounds:{env}", "options": {"tasks": 31}}
            member = {"name": "a", **own}
            config = Config.model_validate({**raw, **privacy, "clients": [member]})
            watched = Watched(tmp_path / f"{noise}-{env}", config)
            shown = watched.site.buffer.lessons("run", 0)
            watched.round(1)
            both.append({*watched.games[-1], *(Game(one.task, one.seed) for one in shown)})
        changed[noise] = len(both[0] - both[1])
    # Another task takes the place of one game and of one demonstration at most.
    assert changed[True] <= 2
    assert changed[False] > 6
