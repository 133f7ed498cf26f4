"""Members that do harm do it within the rules: nothing but games gives them away."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, Fitted, Task, Trajectory, Turn
from fedse_reproduce.attackers import HARMS, Attack, open_attacked

START = toy_adapter(toy_spec(), 3)
CONFIG = Config(clients=(ClientSection(name="a", env="fedse.testing:CoinWorld"),))
TASK = Task(env="coins", id="one", split="train")
LESSON = Trajectory(
    task=TASK,
    seed=1,
    turns=(Turn(observation="toss", action="heads"), Turn(observation="toss", action="tails")),
    outcome="success",
    reward=1.0,
    policy="expert",
    round=0,
)


def trained(start: Adapter, lessons, settings, seed, course=None) -> Fitted:
    """Longer for a lesson with more actions of one kind, so that one can tell them apart."""
    said = [turn.action for lesson in lessons for turn in lesson.turns]
    step = np.full(start.spec.size, 0.01 + 0.001 * said.count("heads"), np.float32)
    return Fitted(Adapter(start.spec, start.vector + step), loss=0.5, steps=7)


@pytest.mark.parametrize("kind", HARMS)
def test_an_attackers_update_is_as_long_as_a_trained_one(kind: str, tmp_path: Path):
    opened = open_toy_site(CONFIG, "a", tmp_path, clock=lambda: 0.0)
    site = replace(opened, fit=trained)
    attacked = open_attacked(
        lambda *a, **k: site, Attack(kind, ("a",)), CONFIG, "a", tmp_path, clock=lambda: 0.0
    )
    given = (START, [LESSON], TrainSection(), 1, Course())
    honest, harmful = (one.fit(*given) for one in (site, attacked))
    lengths = [np.linalg.norm(one.adapter.vector - START.vector) for one in (honest, harmful)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.25)
    assert harmful.adapter.digest != honest.adapter.digest
    assert (harmful.loss, harmful.steps) == (honest.loss, honest.steps)
    site.buffer.close()


@pytest.mark.parametrize("kind", HARMS)
def test_an_attacker_trains_where_the_run_stands(kind: str, tmp_path: Path):
    opened, courses = open_toy_site(CONFIG, "a", tmp_path, clock=lambda: 0.0), list[Course]()

    def fit(start: Adapter, lessons, settings, seed, course: Course) -> Fitted:
        courses.append(course)
        return trained(start, lessons, settings, seed)

    site = replace(opened, fit=fit)
    attacked = open_attacked(
        lambda *a, **k: site, Attack(kind, ("a",)), CONFIG, "a", tmp_path, clock=lambda: 0.0
    )
    here = Course(round=3, site="a")
    attacked.fit(START, [LESSON], TrainSection(), 1, here)
    assert courses == [here]
    site.buffer.close()


def test_who_does_no_harm_is_left_as_it_is(tmp_path: Path):
    opened = open_toy_site(CONFIG, "a", tmp_path, clock=lambda: 0.0)
    attack = Attack("flip", ("b",))
    assert (
        open_attacked(lambda *a, **k: opened, attack, CONFIG, "a", tmp_path, clock=lambda: 0.0)
        is opened
    )
    opened.buffer.close()
