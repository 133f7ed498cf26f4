"""Learning of several roles: what weighs how much, and which block learns from whom."""

from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("torch")

import numpy as np

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.conversations import conversations_of
from fedse.blocks import block_adapter, in_blocks, span_of
from fedse.config.hardware import TrainerSection
from fedse.config.roles import RolesSection
from fedse.config.training import TrainSection
from fedse.course import Course, PrivateCourse, StepCourse
from fedse.errors import TrainError
from fedse.train.batch import learned_tokens, lesson_of, make_batch, sequences_of
from fedse.train.by_role import (
    RoleWeights,
    equal_factors,
    fit_by_role,
    lessons_apart,
    role_lessons,
)
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.optimise import Share, batch_loss
from fedse.train.order import FitFolder, FitOrder
from fedse.train.probe import AdapterProbe, read_gradient
from fedse.train.role_loss import RoleLikelihood
from fedse.train.step_gradient import step_gradient
from fedse.types import Adapter, Task, Trajectory, Turn

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=2, alpha=4, targets=("q_proj",))
PLACE = TrainerSection()
TWO = ("planner", "worker")
SHARED = RolesSection(names=TWO)
PLAIN = RolesSection(names=TWO, balance=False)
ISOLATED = RolesSection(names=TWO, policy="isolated")
SETTINGS = TrainSection(epochs=2, lr=1e-2, batch=8)


def turn(role: str, thread: int, number: int, *, long: int = 3) -> Turn:
    return Turn(
        observation="o",
        action="a",
        context_ids=(10 + number, 20 + number),
        action_ids=tuple(30 + number + i for i in range(long)),
        role=role,
        thread=thread,
    )


def episode(*turns: Turn, number: int = 0) -> Trajectory:
    return Trajectory(
        task=Task(env="e", id=f"t{number}", split="train"),
        seed=0,
        turns=turns,
        outcome="success",
        reward=1.0,
        policy="p",
        round=1,
    )


PLANNER, WORKER = turn("planner", 0, 0), turn("worker", 0, 50, long=9)
BOTH = episode(PLANNER, WORKER)


def copies(*turns: Turn, times: int) -> list[Turn]:
    return [one.model_copy(update={"thread": n}) for one in turns for n in range(times)]


def start(spec: Any = SPEC) -> Adapter:
    vector = initial_adapter(spec, seed=0).vector.copy()
    return Adapter(spec, vector + np.float32(0.01))


def gradient(lessons: list[Trajectory], roles: RolesSection) -> tuple[np.ndarray, RoleLikelihood]:
    """Of the loss of one batch that holds all lessons."""
    given = role_lessons(lessons, (*TWO, ""), RoleWeights(512, roles.balance))
    model, likely = trainer_for(PATH, SPEC, PLACE).model(), RoleLikelihood()
    load_adapter(model, start())
    model.zero_grad()
    sequences = sequences_of(list(given))
    likely(model, sequences, [sequences], PLACE, Share())
    found = read_gradient(model, SPEC)
    model.zero_grad()
    return found, likely


def fit(lessons: list[Trajectory], roles: RolesSection, **options: Any):
    spec = in_blocks(SPEC, roles.blocks)
    own = {"start": start(spec), "settings": SETTINGS, "context": 512, "seed": 1}
    own |= {"course": Course(), **options}
    trainer = trainer_for(PATH, SPEC, own.pop("place", PLACE))
    begun = own.pop("start")
    return fit_by_role(trainer.fit, begun, lessons, roles=roles, **own)


def near(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(one))


def test_a_lesson_has_one_sequence_per_conversation_each_cut_at_the_context():
    lesson = lesson_of(BOTH, context=4)
    assert [part.token_ids for part in lesson.parts] == [(10, 20, 30, 31), (60, 70, 80, 81)]
    assert learned_tokens([lesson]) == 4
    assert make_batch(sequences_of([lesson])).ids_B_T.shape == (2, 4)


def test_one_conversation_has_the_loss_it_has_without_roles():
    bare = episode(WORKER.model_copy(update={"role": ""}))
    model = trainer_for(PATH, SPEC, PLACE).model()
    load_adapter(model, start())
    model.zero_grad()
    batch_loss(model, make_batch([bare])).backward()
    plain = read_gradient(model, SPEC)
    assert near(gradient([episode(WORKER)], SHARED)[0], plain)
    one = RolesSection(names=("worker",))
    trained = trainer_for(PATH, SPEC, PLACE).fit(
        start(), [bare], settings=SETTINGS, context=512, seed=1
    )
    assert fit([episode(WORKER)], one).adapter.digest == trained.adapter.digest


def test_parallel_copies_of_a_conversation_change_nothing_with_balance():
    once, _ = gradient([BOTH], SHARED)
    for times in (2, 5):
        several = episode(PLANNER, *copies(WORKER, times=times))
        assert near(gradient([several], SHARED)[0], once)
        assert not near(gradient([several], PLAIN)[0], gradient([BOTH], PLAIN)[0])


def test_what_one_role_says_again_and_again_does_not_capture_a_shared_policy():
    once, _ = gradient([BOTH], SHARED)
    other = turn("worker", 0, 50, long=9)
    again = [BOTH, *(episode(other, number=n) for n in range(1, 4))]
    assert near(gradient(again, SHARED)[0], once)
    assert not near(gradient(again, PLAIN)[0], gradient([BOTH], PLAIN)[0])


def test_factors_by_hand():
    assert equal_factors({"a": 10, "b": 30}) == {"a": 2.0, "b": 40 / 60}
    assert equal_factors({"a": 7.0}) == {"a": 1.0}
    assert equal_factors({"a": 7.0, "b": 0}) == {"a": 1.0}


def test_the_gradient_mass_of_each_role_is_known():
    whole, likely = gradient([BOTH], SHARED)
    figures = likely.figures(last=1)
    parts = [gradient([episode(one)], SHARED)[0] / 2 for one in (PLANNER, WORKER)]
    assert near(sum(parts), whole)
    assert [figures[role].gradient for role in TWO] == pytest.approx(
        [float(np.linalg.norm(part)) for part in parts], rel=1e-4
    )
    assert [figures[role].tokens for role in TWO] == [3, 9]


def test_every_block_learns_from_its_own_role():
    spec = in_blocks(SPEC, ISOLATED.blocks)
    made = fit([BOTH], ISOLATED)
    only = fit([episode(WORKER)], ISOLATED)
    begun = start(spec)
    assert (
        block_adapter(made.adapter, "worker").digest == block_adapter(only.adapter, "worker").digest
    )
    assert block_adapter(only.adapter, "planner").digest == block_adapter(begun, "planner").digest
    assert block_adapter(made.adapter, "planner").digest != block_adapter(begun, "planner").digest
    assert made.steps == 2
    assert only.roles.keys() == {"worker"}
    assert made.roles["worker"].drift == pytest.approx(
        np.linalg.norm((made.adapter.vector - begun.vector)[span_of(spec, "worker")]), rel=1e-4
    )


def test_roles_that_do_not_act_here_teach_nothing():
    assert fit([BOTH], ISOLATED, here=("worker",)).adapter.digest == (
        fit([episode(WORKER)], ISOLATED).adapter.digest
    )
    nothing = fit([BOTH], ISOLATED, here=("watcher",))
    assert (nothing.steps, nothing.adapter.digest) == (0, start(nothing.adapter.spec).digest)


def test_a_context_in_which_nobody_speaks_is_an_error():
    with pytest.raises(TrainError, match="no action of 1 episodes begins"):
        fit([BOTH], SHARED, context=2)


def test_what_adamw_remembers_is_kept_for_each_block():
    settings = SETTINGS.model_copy(update={"optimizer": "kept"})
    first = fit([BOTH], ISOLATED, settings=settings)
    second = fit(
        [episode(WORKER)], ISOLATED, settings=settings, course=Course(moments=first.moments)
    )
    third = fit([BOTH], ISOLATED, settings=settings, course=Course(moments=second.moments))
    once = fit([BOTH], ISOLATED, settings=settings, course=Course(moments=first.moments))
    planner = [block_adapter(one.adapter, "planner").digest for one in (third, once)]
    assert planner[0] == planner[1]
    assert third.adapter.digest != once.adapter.digest


def test_a_unit_is_an_episode_with_all_its_conversations():
    """The gradient of an episode depends on no other one, and is short as a whole."""
    lessons = [BOTH, episode(turn("worker", 0, 7, long=20), number=1)]
    trainer = trainer_for(PATH, SPEC, PLACE)
    course = StepCourse(((0,),), 1e9, 2.0**-30)
    sums = []
    for pool in (lessons[:1], lessons):
        given = lessons_apart(pool, SHARED, (), context=512)
        found = step_gradient(trainer, start(), given, course, SPEC, context=512)
        sums.append(found.total)
    assert (sums[0] == sums[1]).all()
    exact, _ = gradient([BOTH], SHARED)
    assert near(sums[0] * 2.0**-30, exact)


def test_a_step_of_isolated_policies_is_short_as_a_whole():
    """The parts are the gradients of the blocks; one unit counts for the clip in all of them."""
    spec, trainer = in_blocks(SPEC, ISOLATED.blocks), trainer_for(PATH, SPEC, PLACE)
    begun, unit = start(spec), 2.0**-30

    def summed(episodes: list[Trajectory], clip: float) -> np.ndarray:
        given = lessons_apart(episodes, ISOLATED, (), context=512)
        course = StepCourse(tuple((place,) for place in range(len(episodes))), clip, unit)
        how = {"context": 512, "block_of": ISOLATED.block_of}
        return step_gradient(trainer, begun, given, course, spec, **how).total * unit

    whole = summed([BOTH], 1e9)
    for role, turns in (("planner", PLANNER), ("worker", WORKER)):
        own = gradient([episode(turns)], SHARED)[0]
        assert near(whole[span_of(spec, role)], own)
    clip = float(np.linalg.norm(whole)) / 2
    assert near(summed([BOTH], clip), whole / 2)
    assert near(summed([BOTH, BOTH], clip), whole)


def test_a_private_fit_has_a_unit_per_episode():
    private = PrivateCourse(((0,), (1,)), 1.0, 2, 1.0, 0.5, b"secret")
    lessons = [BOTH, episode(turn("worker", 0, 7), number=1)]
    made = fit(lessons, SHARED, course=Course(private=private))
    assert made.steps == 2
    assert made.longest > 0


def test_the_probe_reads_each_conversation_by_itself():
    probe = AdapterProbe(trainer_for(PATH, SPEC, PLACE), context=512)
    (whole,) = probe.losses(start(), [BOTH])
    parts = probe.losses(start(), [episode(PLANNER), episode(WORKER)])
    assert whole == pytest.approx((3 * parts[0] + 9 * parts[1]) / 12, rel=1e-4)


def test_conversations_keep_their_order():
    assert [one.role for one in conversations_of(BOTH)] == [*TWO]


def test_an_order_and_its_result_keep_the_roles(tmp_path: Path):
    (lesson,) = role_lessons([BOTH], TWO, RoleWeights(512, balance=True))
    order = FitOrder(
        base=PATH,
        spec=SPEC,
        place=PLACE,
        settings=SETTINGS,
        context=512,
        seed=1,
        lessons=(lesson,),
    )
    folder = FitFolder(tmp_path)
    folder.write_order(order, start())
    assert folder.read_order()[0].lessons == (lesson,)
    made = fit([BOTH], SHARED)
    folder.write_fitted(made)
    assert folder.read_fitted(SPEC).roles == made.roles
    assert made.roles.keys() == {*TWO}


@pytest.mark.slow
def test_processes_that_train_together_tell_conversations_apart():
    place = TrainerSection(processes=2)
    made = fit([BOTH, episode(turn("worker", 0, 7), number=1)], SHARED, place=place)
    alone = fit([BOTH, episode(turn("worker", 0, 7), number=1)], SHARED)
    assert np.allclose(made.adapter.vector, alone.adapter.vector, atol=1e-4)
