"""Which lessons each step of a fit learns from: passes over all of them, cut into batches."""

from collections.abc import Iterator, Sequence
from itertools import count, islice
from math import ceil
from random import Random

from fedse.config.training import TrainSection
from fedse.seeds import seed_of
from fedse.train.batch import T

JITTER = 0.05
"""A lesson's length counts as up to this share more or less, so that no two passes group alike."""


def batches_of(lessons: Sequence[T], settings: TrainSection, *, seed: int) -> Iterator[list[T]]:
    """The lessons of each step of a fit, every pass over them in an order of its own."""
    if not lessons:
        return iter(())
    passes = count() if settings.epochs is None else range(settings.epochs)
    batches = (
        batch for number in passes for batch in _one_pass(lessons, settings, seed, number=number)
    )
    return islice(batches, settings.steps or settings.max_steps)


def last_pass(settings: TrainSection, *, lessons: int, steps: int) -> int:
    """How many of a fit's steps are its last pass; of one cut short, as many as fall to a pass."""
    if settings.epochs is None:
        return min(steps, ceil(lessons / settings.batch))
    return max(1, ceil(steps / settings.epochs))


def _one_pass(
    lessons: Sequence[T], settings: TrainSection, seed: int, *, number: int
) -> list[list[T]]:
    random = Random(seed_of(seed, "epoch", number))
    order = list(lessons)
    random.shuffle(order)
    if settings.batches == "by-length":
        return _by_length(order, settings.batch, random)
    return _cut(order, settings.batch)


def _by_length(order: list[T], batch: int, random: Random) -> list[list[T]]:
    """Batches of lessons of similar length, in any order; one may be smaller, any of them."""
    jittered = [len(lesson.token_ids) * random.uniform(1 - JITTER, 1 + JITTER) for lesson in order]
    ranked = [order[i] for i in sorted(range(len(order)), key=jittered.__getitem__)]
    whole, rest = divmod(len(order), batch)
    # The small batch at a place of its own each time, or its lessons would always be the longest.
    place = random.randint(0, whole) * batch if rest else 0
    small = ranked[place : place + rest]
    batches = _cut(ranked[:place] + ranked[place + rest :], batch) + [small] * bool(rest)
    random.shuffle(batches)
    return batches


def _cut(order: list[T], batch: int) -> list[list[T]]:
    return [order[start : start + batch] for start in range(0, len(order), batch)]
