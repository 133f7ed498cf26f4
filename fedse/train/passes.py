"""Which lessons each step of a fit learns from: passes over all of them, cut into batches.

A pass orders the places of the lessons, so a lesson is looked at when its step has come, and one
that no step needs never is.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import Generic

from fedse.config.training import TrainSection
from fedse.seeds import seed_of
from fedse.train.batch import T

JITTER = 0.05
"""A lesson's length counts as up to this share more or less, so that no two passes group alike."""

Places = Sequence[int]


class FitBatches(Generic[T]):
    """The lessons of each step of a fit, every pass over them in an order of its own.

    Each is read when its step has come.
    """

    def __init__(self, lessons: Sequence[T], settings: TrainSection, *, seed: int) -> None:
        self._lessons, self._settings, self._seed = lessons, settings, seed

    def __len__(self) -> int:
        return self._settings.steps_over(len(self._lessons))

    def __iter__(self) -> Iterator[list[T]]:
        for places in islice(self._all_places(), len(self)):
            yield [self._lessons[place] for place in places]

    def _all_places(self) -> Iterator[Places]:
        settings, lengths = self._settings, None
        if settings.batches == "by-length" and len(self):
            lengths = array("q", (len(lesson.token_ids) for lesson in self._lessons))
        for number in count() if len(self) else ():
            random = Random(seed_of(self._seed, "epoch", number))
            order = array("q", range(len(self._lessons)))
            random.shuffle(order)
            if lengths is None:
                yield from _cut(order, settings.batch)
            else:
                yield from _by_length(order, lengths, settings.batch, random)


def _by_length(
    order: "array[int]", lengths: Sequence[int], batch: int, random: Random
) -> list[Places]:
    """Batches of lessons of similar length, in any order; one may be smaller, any of them."""
    jittered = [lengths[place] * random.uniform(1 - JITTER, 1 + JITTER) for place in order]
    ranked = array("q", (order[i] for i in sorted(range(len(order)), key=jittered.__getitem__)))
    whole, rest = divmod(len(order), batch)
    # The small batch at a place of its own each time, or its lessons would always be the longest.
    place = random.randint(0, whole) * batch if rest else 0
    small: list[Places] = [ranked[place : place + rest]] * bool(rest)
    batches = [*_cut(ranked[:place] + ranked[place + rest :], batch), *small]
    random.shuffle(batches)
    return batches


def _cut(order: Places, batch: int) -> Iterator[Places]:
    return (order[start : start + batch] for start in range(0, len(order), batch))
