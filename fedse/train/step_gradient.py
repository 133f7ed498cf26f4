"""A site's part of a private step: the sum of its units' short gradients, in whole numbers.

Each gradient is shortened, then rounded towards zero on a grid, which makes it no longer. Sums of
whole numbers have no rounding, so one unit more or less changes the sum by no more than the clip,
and the order of units changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedse.blocks import bare_spec, block_adapter, span_of
from fedse.course import GradientSum, StepCourse
from fedse.lazy import Lazy
from fedse.train.batch import Lesson, Tokenized, joined, lesson_of
from fedse.train.lora import REMEMBERED, Trainer, load_adapter
from fedse.train.moments import factors_of
from fedse.train.optimise import resting_factor, trainable, training_mode
from fedse.train.unit_gradients import TOGETHER, shortened, unit_gradients
from fedse.types import Adapter, AdapterSpec


def step_gradient(
    trainer: Trainer,
    start: Adapter,
    lessons: Sequence[Tokenized],
    course: StepCourse,
    part: AdapterSpec,
    *,
    context: int,
    beat: Callable[[], None] = lambda: None,
    block_of: Callable[[str], str] = str,
) -> GradientSum:
    """The sum over all units at `start`, in the layout of `part`; zeros where there is no unit.

    Of an adapter of blocks, each conversation counts in that of its role: `block_of` tells it. The
    gradient of a unit is that of all blocks together, and is shortened as a whole.
    """
    total, losses = np.zeros(part.size, dtype=np.int64), 0.0
    given = (trainer, start, lessons, course, part)
    for _, whole_U_P, loss in parts_of_sum(*given, context=context, block_of=block_of):
        total += whole_U_P.sum(dim=0).numpy()
        losses += loss
        beat()
    return GradientSum(total, losses / max(1, len(course.units)))


def parts_of_sum(
    trainer: Trainer,
    start: Adapter,
    lessons: Sequence[Tokenized],
    course: StepCourse,
    part: AdapterSpec,
    *,
    context: int,
    block_of: Callable[[str], str] = str,
) -> Iterator[tuple[list[Sequence[int]], Tensor, float]]:
    """Some units at a time: what each adds to the sum, as a row, and the sum of their losses."""
    kept: Sequence[Lesson] = Lazy(
        len(lessons),
        lambda place: lesson_of(lessons[place], context=context),
        remembered=REMEMBERED,
    )
    model, blocks = trainer.model(bare_spec(start.spec)), in_order(part)
    load_adapter(model, block_adapter(start, blocks[0]))
    factors = "both" if part == start.spec else "b"
    with resting_factor(model, factors), training_mode(model, trainer.place):
        order = places_of(model, bare_spec(part))
        orders = torch.cat([order + len(order) * number for number in range(len(blocks))])
        for group in alike(course.units, kept):
            found, loss = list[Tensor](), 0.0
            for block in blocks:
                if len(blocks) > 1:
                    load_adapter(model, block_adapter(start, block))
                units = [[_in_block(kept[place], block, block_of) for place in u] for u in group]
                gradients_U_P, own = unit_gradients(model, units, trainer.place)
                found.append(gradients_U_P)
                loss += own / len(blocks)
            short_U_P = shortened(torch.cat(found, dim=1), course.clip)[:, orders]
            yield group, torch.trunc(short_U_P / course.unit).to(torch.int64), loss


def in_order(part: AdapterSpec) -> list[str]:
    """The blocks as they lie in the vector; one without a name if there are none."""
    return sorted(part.blocks, key=lambda block: span_of(part, block).start) or [""]


def _in_block(lesson: Lesson, block: str, block_of: Callable[[str], str]) -> Lesson:
    """The conversations of the block's roles; all of them where there is no block."""
    if not block:
        return lesson
    own = [one for one in lesson.parts if block_of(one.role) == block]
    return joined(own, success=lesson.success)


def alike(units: Sequence[Sequence[int]], lessons: Sequence[Lesson]) -> list[list[Sequence[int]]]:
    """All units in groups of similar length, which need little padding."""
    longest = [max(len(lessons[place].token_ids) for place in unit) for unit in units]
    ranked = [units[i] for i in sorted(range(len(units)), key=longest.__getitem__)]
    return [ranked[start : start + TOGETHER] for start in range(0, len(ranked), TOGETHER)]


def places_of(model: Any, part: AdapterSpec) -> Tensor:
    """Where each number of `part` stands among the trainable parameters, in their order."""
    starts, found = 0, dict[int, Tensor]()
    for parameter in trainable(model):
        found[id(parameter)] = torch.arange(starts, starts + parameter.numel())
        starts += parameter.numel()
    named = factors_of(model, part)
    return torch.cat([found[id(named[tensor.name])] for tensor in part.tensors])
