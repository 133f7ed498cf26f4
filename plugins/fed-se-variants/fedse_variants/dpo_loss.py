"""DPO: a success of a task becomes likelier than a failure of it, from where a fit starts.

Direct preference optimisation (arXiv 2305.18290) on the log-probability of all the agent's own
tokens of an episode, with the likelihood of the successes added, as ETO does it for agents
(arXiv 2403.02502). What counts is how much more the success has gained since the reference than the
failure. A success in a task without a failure has the likelihood term only.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import cycle
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from fedse.extend.learning import FitContext, TrainError, TrainerSection
from fedse.extend.losses import (
    Lesson,
    Share,
    episode_chances,
    learned_tokens,
    log_probabilities,
    make_batch,
)
from fedse_variants.dpo import DpoOptions


class Paired(NamedTuple):
    """A success with all that its loss depends on but the model as it is now."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool
    reference: float
    """Log-probability of the agent's tokens by the reference."""
    failure: Lesson | None
    """An episode of the same task that failed; None = there is none."""
    failure_reference: float


def pair(
    model: Any, lessons: Sequence[Lesson], options: DpoOptions, fit: FitContext
) -> list[Paired]:
    """The successes in their order, with their log-probabilities by the model as it is now.

    Those of a task are paired with its failures in turn. With `options.reference` = base the
    adapter is left out.
    """
    successes = [lesson for lesson in lessons if lesson.success]
    failures = list(failures_of(lessons))
    if not successes:
        raise TrainError(
            f"dpo learns from successes, and none of {len(lessons)} lessons is one",
            hint="set buffer.demonstrations to a larger number",
        )
    needed = [*successes, *(failure for failure in failures if failure is not None)]
    without = model.disable_adapter() if options.reference == "base" else nullcontext()
    with without:
        known = log_probabilities(model, needed, fit)
    return [
        Paired(*one[:3], known[one], other, 0.0 if other is None else known[other])
        for one, other in zip(successes, failures, strict=True)
    ]


def failures_of(lessons: Sequence[Lesson]) -> Iterator[Lesson | None]:
    """For each success in its order a failure of its task, each in turn; None = there is none."""
    by_task: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        if not lesson.success:
            by_task.setdefault(_task(lesson), []).append(lesson)
    turns = {task: cycle(failed) for task, failed in by_task.items()}
    for lesson in lessons:
        if lesson.success:
            yield next(turns[_task(lesson)]) if _task(lesson) in turns else None


def _task(lesson: Lesson) -> str:
    return lesson.origin.task if lesson.origin else ""


def dpo_losses(gains_P: Tensor, failure_gains_P: Tensor, options: DpoOptions) -> Tensor:
    """The loss of each pair, by how much either log-probability is above the reference's."""
    return -F.logsigmoid(options.beta * (gains_P - failure_gains_P))


def dpo(
    model: Any,
    lessons: Sequence[Paired],
    own: Sequence[Sequence[Paired]],
    place: TrainerSection,
    share: Share,
    *,
    options: DpoOptions,
) -> float:
    """The mean loss of the batch's pairs, and the weighted likelihood of its successes."""
    pairs, won = sum(one.failure is not None for one in lessons), learned_tokens(lessons)
    total = 0.0
    for piece in own:
        chances_B = episode_chances(model, make_batch(piece).to(place.device))
        loss = -options.sft_weight * chances_B.sum() / max(1, won)
        paired = [row for row, one in enumerate(piece) if one.failure is not None]
        if paired:
            failed = [one.failure for one in piece if one.failure is not None]
            then_P = chances_B.new_tensor([piece[row].reference for row in paired])
            failed_then_P = chances_B.new_tensor([piece[row].failure_reference for row in paired])
            failed_P = episode_chances(model, make_batch(failed).to(place.device)) - failed_then_P
            losses_P = dpo_losses(chances_B[paired] - then_P, failed_P, options)
            loss = loss + losses_P.sum() / pairs
        if loss.requires_grad:  # not without a token of the agent
            loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total
