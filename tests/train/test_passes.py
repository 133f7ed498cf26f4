"""Which lessons share a step: every one once a pass, in a new order each time."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("torch")

from fedse.config.training import TrainSection
from fedse.lazy import Lazy
from fedse.seeds import seed_of
from fedse.train.batch import Lesson, padded_tokens
from fedse.train.passes import FitBatches

BATCHES = st.sampled_from(["shuffled", "by-length"])


def lessons_of(lengths: list[int]) -> list[Lesson]:
    """Each is another one, whatever its length."""
    return [Lesson((number,) * n, (True,) * n) for number, n in enumerate(lengths)]


lessons = st.lists(st.integers(1, 60), min_size=1, max_size=30).map(lessons_of)


@given(lessons, st.integers(1, 7), st.integers(1, 3), BATCHES, st.integers(0, 99))
def test_every_lesson_is_in_exactly_one_batch_of_a_pass(given_lessons, batch, epochs, how, seed):
    settings = TrainSection(epochs=epochs, batch=batch, batches=how)
    made = list(FitBatches(given_lessons, settings, seed=seed))
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
    made = list(FitBatches(given_lessons, exact, seed=seed))
    assert len(made) == steps
    assert made == list(FitBatches(given_lessons, bounded, seed=seed))


def shuffled_lessons(given_lessons, settings: TrainSection, seed: int, number: int) -> list:
    """The batches of one pass, by shuffling the lessons themselves."""
    random, order = Random(seed_of(seed, "epoch", number)), list(given_lessons)
    random.shuffle(order)
    batch = settings.batch
    if settings.batches == "shuffled":
        return [order[start : start + batch] for start in range(0, len(order), batch)]
    lengths = [len(lesson.token_ids) * random.uniform(0.95, 1.05) for lesson in order]
    ranked = [order[i] for i in sorted(range(len(order)), key=lengths.__getitem__)]
    whole, rest = divmod(len(order), batch)
    place = random.randint(0, whole) * batch if rest else 0
    others = ranked[:place] + ranked[place + rest :]
    made = [others[start : start + batch] for start in range(0, len(others), batch)]
    made += [ranked[place : place + rest]] * bool(rest)
    random.shuffle(made)
    return made


@given(lessons, st.integers(1, 7), BATCHES, st.integers(0, 99))
def test_places_are_ordered_as_the_lessons_themselves_would_be(given_lessons, batch, how, seed):
    settings = TrainSection(epochs=2, batch=batch, batches=how)
    expected = [shuffled_lessons(given_lessons, settings, seed, number) for number in range(2)]
    assert list(FitBatches(given_lessons, settings, seed=seed)) == [*expected[0], *expected[1]]


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 9))
def test_only_the_lessons_of_the_steps_that_are_taken_are_looked_at(size, batch, steps):
    looked: list[int] = []
    whole = lessons_of([5] * size)
    lazy = Lazy(size, lambda place: looked.append(place) or whole[place])
    made = FitBatches(lazy, TrainSection(epochs=3, max_steps=steps, batch=batch), seed=1)
    assert len(made) == min(steps, 3 * -(-size // batch))
    assert looked == []
    assert len(list(made)) == len(made)
    assert len(looked) <= steps * batch


@given(lessons, BATCHES, st.integers(0, 99))
def test_the_seed_decides_all(given_lessons, how, seed):
    settings = TrainSection(epochs=3, batch=4, batches=how)
    first, again = (list(FitBatches(given_lessons, settings, seed=seed)) for _ in range(2))
    assert first == again


def test_no_lesson_makes_no_batch():
    assert list(FitBatches([], TrainSection(steps=3), seed=1)) == []


VARIED = lessons_of([10 + 3 * number % 97 for number in range(64)])


def padding(how: str) -> float:
    made = list(FitBatches(VARIED, TrainSection(epochs=2, batch=4, batches=how), seed=1))
    tokens = sum(len(lesson.token_ids) for group in made for lesson in group)
    return 1 - tokens / sum(map(padded_tokens, made))


def test_batches_by_length_take_a_fraction_of_the_padding():
    assert padding("by-length") < 0.4 * padding("shuffled")


def test_passes_by_length_group_differently_and_begin_with_any_length():
    made = list(FitBatches(VARIED, TrainSection(epochs=8, batch=4, batches="by-length"), seed=1))
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
    small = [group[0] for group in FitBatches(lessons, settings, seed=1) if len(group) == 1]
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
    assert settings.steps_of_last_pass(lessons=10, steps=steps) == expected
