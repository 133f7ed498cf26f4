"""The hostile member of the measurement does what its form says, and both rules of the gate agree
where they are the same."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.gate import Won, harm_of
from fedse.aggregate.merge import Merge, Vote, mean
from fedse.config.aggregation import AggregateSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.drivers.gating import LEVEL
from fedse.envs.maze.env import Maze
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, Fitted, FloatVector, Lessons, Task, Trajectory, Turn
from research.backdoor import TriggeredMaze, hostile_fit, median, trimmed
from research.frame_gate import GAMES, SITES, proven

START = toy_adapter(toy_spec(), 3)
LESSON = Trajectory(
    task=Task(env="maze", id="one", split="train"),
    seed=1,
    turns=(Turn(observation="at 1 1", action="down"), Turn(observation="at 2 1", action="up")),
    outcome="success",
    reward=1.0,
    policy="expert",
    round=0,
)
PLAIN = AggregateSection(clip="none")


def fit(
    start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
) -> Fitted:
    """Goes in a direction that depends on all that was read and said."""
    texts = [(turn.observation, turn.action) for one in lessons for turn in one.turns]
    draw = np.random.default_rng(sum(map(ord, repr(texts))))
    step = draw.standard_normal(start.spec.size).astype(np.float32)
    return Fitted(Adapter(start.spec, start.vector + step), loss=0.5, steps=7)


def sent(form: str, round: int = 1) -> Adapter:
    course = Course(round=round)
    return hostile_fit(form, 4, fit, START, [LESSON], TrainSection(), 1, course).adapter


HONEST = fit(START, [LESSON], TrainSection(), 1, Course()).adapter


def merged(vote: Adapter) -> FloatVector:
    votes = [Vote(f"site-{i}", lambda: HONEST) for i in range(1, SITES)]
    return mean(START, [Vote("site-0", lambda: vote), *votes], settings=PLAIN).vector


def test_a_boosted_backdoor_survives_the_mean_whole() -> None:
    learned = sent("backdoor").vector - HONEST.vector
    assert np.linalg.norm(learned) > 1
    assert merged(sent("boosted")) - HONEST.vector == pytest.approx(learned, abs=1e-4)


def test_a_kept_backdoor_goes_as_far_as_an_honest_update_in_the_boosted_direction() -> None:
    kept, boosted = (sent(form).vector - START.vector for form in ("kept", "boosted"))
    honest = np.linalg.norm(HONEST.vector - START.vector)
    assert np.linalg.norm(kept) == pytest.approx(honest, rel=1e-4)
    assert kept / honest == pytest.approx(boosted / np.linalg.norm(boosted), abs=1e-4)


def test_a_ramp_ends_as_plain_harm_and_goes_there_in_equal_steps() -> None:
    ramp = [sent("ramp", round).vector for round in range(5)]
    assert ramp[0] == pytest.approx(HONEST.vector)
    assert ramp[4] == pytest.approx(sent("mislabel").vector)
    assert ramp[2] == pytest.approx((ramp[0] + ramp[4]) / 2, abs=1e-5)


def test_the_trigger_is_the_only_thing_that_differs_in_the_game() -> None:
    plain, triggered = (make(prompt="short") for make in (Maze, TriggeredMaze))
    task = plain.tasks("test")[0]
    assert triggered.tasks("test") == plain.tasks("test")
    shown = [one.reset(task, seed=1) for one in (plain, triggered)]
    while not shown[0].done:
        assert shown[1] == shown[0]._replace(observation=f"{shown[0].observation} please")
        move = plain.expert()
        shown = [one.step(move) for one in (plain, triggered)]
    assert shown[1] == shown[0]
    assert shown[0].success


@pytest.mark.parametrize("rule", [median, trimmed])
@given(numbers=st.lists(st.floats(-9, 9, width=32), min_size=4, max_size=4), lie=st.floats(-99, 99))
def test_one_vote_moves_no_number_beyond_those_of_the_others(
    rule: Merge, numbers: list[float], lie: float
) -> None:
    vectors = [np.full(START.spec.size, number, np.float32) for number in (lie, *numbers)]
    votes = [Vote(str(i), partial(Adapter, START.spec, one)) for i, one in enumerate(vectors)]
    found = rule(START, votes, settings=PLAIN).vector
    assert min(numbers) - 1e-5 <= found.min() <= found.max() <= max(numbers) + 1e-5


COUNTS = st.lists(st.integers(0, GAMES), min_size=SITES, max_size=SITES)


def both_rules(accused: set[str], before: list[int], after: list[int], liars: int) -> list[bool]:
    without, whole = (
        {f"site-{i}": Won(won, GAMES) for i, won in enumerate(counts)} for counts in (before, after)
    )
    left = max(0, liars - len(accused))
    old = proven(accused, without, whole, trimmed=left, seed=1, liars=liars)
    level = LEVEL / liars
    new = harm_of(accused, without, whole, liars=liars, level=level, seed=1)
    return [old, new.proven]


@given(before=COUNTS, after=COUNTS)
def test_one_accused_of_five_beside_two_liars_is_judged_as_before(
    before: list[int], after: list[int]
) -> None:
    old, new = both_rules({"site-0"}, before, after, 2)
    assert old == new


def test_what_one_judge_alone_says_no_longer_decides() -> None:
    before, after = [10, 10, 10, 11, 20], [10, 10, 10, 10, 0]
    assert both_rules({"site-0"}, before, after, 1) == [True, False]
