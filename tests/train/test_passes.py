"""Which lessons share a step: every one once a pass, in a new order each time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("torch")

from fedse.config.training import TrainSection
from fedse.train.batch import Lesson, padded_tokens
from fedse.train.passes import batches_of, last_pass

BATCHES = st.sampled_from(["shuffled", "by-length"])


def lessons_of(lengths: list[int]) -> list[Lesson]:
    """Each is another one, whatever its length."""
    return [Lesson((number,) * n, (True,) * n) for number, n in enumerate(lengths)]


lessons = st.lists(st.integers(1, 60), min_size=1, max_size=30).map(lessons_of)


@given(lessons, st.integers(1, 7), st.integers(1, 3), BATCHES, st.integers(0, 99))
def test_every_lesson_is_in_exactly_one_batch_of_a_pass(given_lessons, batch, epochs, how, seed):
    settings = TrainSection(epochs=epochs, batch=batch, batches=how)
    made = list(batches_of(given_lessons, settings, seed=seed))
    per_pass = -(-len(given_lessons) // batch)
    assert len(made) == epochs * per_pass
    for start in range(0, len(made), per_pass):
        one_pass = made[start : start + per_pass]
        assert Counter(lesson for group in one_pass for lesson in group) == Counter(given_lessons)
        sizes = sorted(len(group) for group in one_pass)
        assert sizes[1:] == [batch] * (per_pass - 1)


@given(lessons, st.integers(1, 7), st.integers(1, 40), BATCHES, st.integers(0, 99))
def test_exact_steps_are_the_first_steps_of_endless_epochs(given_lessons, batch, steps, how, seed):
    exact = TrainSection(steps=steps, batch=batch, batches=how)
    bounded = TrainSection(epochs=steps, max_steps=steps, batch=batch, batches=how)
    made = list(batches_of(given_lessons, exact, seed=seed))
    assert len(made) == steps
    assert made == list(batches_of(given_lessons, bounded, seed=seed))


@given(lessons, BATCHES, st.integers(0, 99))
def test_the_seed_decides_all(given_lessons, how, seed):
    settings = TrainSection(epochs=3, batch=4, batches=how)
    first, again = (list(batches_of(given_lessons, settings, seed=seed)) for _ in range(2))
    assert first == again


def test_no_lesson_makes_no_batch():
    assert list(batches_of([], TrainSection(steps=3), seed=1)) == []


VARIED = lessons_of([10 + 3 * number % 97 for number in range(64)])


def padding(how: str) -> float:
    made = list(batches_of(VARIED, TrainSection(epochs=2, batch=4, batches=how), seed=1))
    tokens = sum(len(lesson.token_ids) for group in made for lesson in group)
    return 1 - tokens / sum(map(padded_tokens, made))


def test_batches_by_length_take_a_fraction_of_the_padding():
    assert padding("by-length") < 0.4 * padding("shuffled")


def test_passes_by_length_group_differently_and_begin_with_any_length():
    made = list(batches_of(VARIED, TrainSection(epochs=8, batch=4, batches="by-length"), seed=1))
    groups = [frozenset(group) for group in made]
    assert len(set(groups)) > len(groups) / 2
    means = [sum(len(lesson.token_ids) for lesson in group) / 4 for group in made]
    firsts = means[::16]
    assert firsts != sorted(firsts)
    assert len(set(firsts)) > 4


def test_the_small_batch_is_of_any_length():
    """Else the same lessons would always weigh more than the others."""
    lessons = lessons_of(list(range(10, 100, 10)))
    settings = TrainSection(steps=300, batch=4, batches="by-length")
    small = [group[0] for group in batches_of(lessons, settings, seed=1) if len(group) == 1]
    assert len({len(lesson.token_ids) for lesson in small}) >= 3


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [
        (TrainSection(epochs=2, batch=4), 6, 3),
        (TrainSection(epochs=2, batch=4, max_steps=5), 5, 3),
        (TrainSection(epochs=9, batch=4, max_steps=2), 2, 1),
        (TrainSection(steps=40, batch=4), 40, 3),
        (TrainSection(steps=2, batch=4), 2, 2),
    ],
)
def test_the_loss_is_told_of_the_last_pass(settings: TrainSection, steps: int, expected: int):
    assert last_pass(settings, lessons=10, steps=steps) == expected
