"""The sum of a site's gradients: in the order of the adapter, and no unit counts for too much."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("torch")

import numpy as np

from fedse.aggregate.factors import travelling_spec
from fedse.config.schema import Config
from fedse.course import GradientSum, StepCourse
from fedse.train.batch import Lesson, learned_tokens, make_batch
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.moments import factors_of
from fedse.train.optimise import batch_loss
from fedse.train.step_gradient import alike, step_gradient
from fedse.types import AdapterSpec
from tests.train.test_private_steps import LESSONS, PATH, PLACE, SPEC, adapter, lesson

UNIT = 2.0**-24
EACH = tuple((place,) for place in range(len(LESSONS)))
CONFIG = Config.model_validate(
    {"train": {"factors": "b"}, "clients": [{"name": "a", "env": "maze"}]}
)
ONLY_B = travelling_spec(SPEC, CONFIG)


def summed(
    units: tuple[tuple[int, ...], ...] = EACH,
    *,
    part: AdapterSpec = SPEC,
    clip: float = 0.05,
    lessons: list[Lesson] = LESSONS,
) -> GradientSum:
    trainer = trainer_for(PATH, SPEC, PLACE)
    course = StepCourse(units, clip, UNIT)
    return step_gradient(trainer, adapter(), lessons, course, part, context=100)


def exact(units: tuple[tuple[int, ...], ...], part: AdapterSpec, clip: float) -> np.ndarray:
    """The slow way: a backward pass per episode, each factor by its name."""
    model = trainer_for(PATH, SPEC, PLACE).model()
    load_adapter(model, adapter())
    total = np.zeros(part.size)
    for unit in units:
        model.zero_grad()
        for place in unit:
            if learned_tokens([LESSONS[place]]):
                batch_loss(model, make_batch([LESSONS[place]])).backward()
        named = factors_of(model, part)
        found = [named[t.name].grad for t in part.tensors]
        flat = [
            np.zeros(np.prod(t.shape)) if g is None else g.flatten().double().numpy()
            for t, g in zip(part.tensors, found, strict=True)
        ]
        own = np.concatenate(flat)
        total += own * min(1.0, clip / max(float(np.linalg.norm(own)), 1e-30))
    model.zero_grad()
    return total


@pytest.mark.parametrize("part", [SPEC, ONLY_B], ids=["both", "b"])
@pytest.mark.parametrize("clip", [1e9, 0.05])
@pytest.mark.parametrize("units", [EACH, ((0, 3), (1,), (2, 4, 2))])
def test_it_is_the_sum_of_slow_gradients_in_the_order_of_the_adapter(part, clip, units):
    found, slow = summed(units, part=part, clip=clip).total * UNIT, exact(units, part, clip)
    assert np.abs(found - slow).max() < 2e-5 * np.abs(slow).max() + len(units) * UNIT
    assert np.abs(slow).max() > 1e-3


def test_what_is_not_learned_has_no_part_in_the_norm():
    """With B alone, the same clip leaves more of B than beside A."""
    both, only = summed(clip=0.05), summed(clip=0.05, part=ONLY_B)
    of_b = np.concatenate([both.total[SPEC.slices[t.name]] for t in ONLY_B.tensors])
    assert np.linalg.norm(only.total) > 1.05 * np.linalg.norm(of_b)


@settings(max_examples=10)
@given(
    masks=st.lists(st.lists(st.booleans(), min_size=2, max_size=20), min_size=1, max_size=5),
    clip=st.floats(1e-3, 1),
)
def test_a_unit_more_or_less_changes_the_sum_by_no_more_than_the_clip(masks, clip):
    lessons = [Lesson(tuple(range(7, 7 + len(mask))), tuple(mask)) for mask in masks]
    units = tuple((place,) for place in range(len(lessons)))
    whole, less = (summed(some, lessons=lessons, clip=clip).total for some in (units, units[1:]))
    # The bits of a gradient may depend on who is in the same batch; the noise has room for that.
    assert np.linalg.norm((whole - less) * UNIT) <= clip * 1.001


def test_the_grid_makes_no_gradient_longer():
    """Rounded to the next whole number, about half of them would be; the sum would tell more."""
    trainer, coarse = trainer_for(PATH, SPEC, PLACE), 2.0**-12
    for place in (0, 1, 2, 4):
        course = StepCourse(((place,),), 0.05, coarse)
        found = step_gradient(trainer, adapter(), LESSONS, course, SPEC, context=100).total
        fine = summed(((place,),)).total * UNIT
        assert (np.abs(found * coarse) <= np.abs(fine) + 2 * UNIT).all()
        assert np.abs(found * coarse - fine).max() <= coarse
        assert np.abs(found).max() >= 3


def test_the_order_of_units_changes_nothing():
    units = ((0,), (1,), (2,), (4,))
    assert (summed(units).total == summed(units[::-1]).total).all()


def test_a_unit_that_is_in_no_buffer_adds_nothing():
    """Neither does one in which nothing is learned from."""
    nothing = summed(())
    assert (nothing.total == 0).all()
    assert nothing.total.dtype == np.int64
    assert (summed(((3,),)).total == 0).all()


def test_groups_have_units_of_similar_length():
    lessons = [lesson(length, own=(3,)) for length in (9, 40, 12, 33) * 8]
    groups = alike([(place,) for place in range(32)], lessons)
    assert sorted(place for group in groups for (place,) in group) == list(range(32))
    lengths = [[len(lessons[place].token_ids) for (place,) in group] for group in groups]
    assert [max(one) for one in lengths] == [12, 40]
