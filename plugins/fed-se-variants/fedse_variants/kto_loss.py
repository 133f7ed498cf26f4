"""KTO: towards episodes that succeeded, away from those that failed, from where a fit starts.

Kahneman-Tversky optimisation (arXiv 2402.01306) on the log-probability of all the agent's own
tokens of an episode, with the likelihood of the successes added. What counts is how much that has
gained since the reference, compared with how much the log-probability of any other text has: the
divergence, estimated as in the paper from episodes that do not fit together.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedse.extend.learning import FitContext, TrainerSection
from fedse.extend.losses import (
    Lesson,
    Share,
    episode_chances,
    learned_tokens,
    log_probabilities,
    make_batch,
)
from fedse_variants.kto import KtoOptions


class Judged(NamedTuple):
    """A lesson with all that its loss depends on but the model as it is now."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool
    reference: float
    """Log-probability of the agent's tokens by the reference."""
    stranger: Lesson
    """The opening of this episode with the rest of another one."""
    stranger_reference: float


def judge(
    model: Any, lessons: Sequence[Lesson], options: KtoOptions, fit: FitContext
) -> list[Judged]:
    """The lessons in their order, with their log-probabilities by the model as it is now.

    Each is mixed with the one after it, the last with the first. With `options.reference` = base
    the adapter is left out.
    """
    others = [*lessons[1:], *lessons[:1]]
    pairs = zip(lessons, others, strict=True)
    strangers = [mixed(*pair, context=fit.context) for pair in pairs]
    without = model.disable_adapter() if options.reference == "base" else nullcontext()
    with without:
        known = log_probabilities(model, [*lessons, *strangers], fit)
    return [
        Judged(*lesson[:3], known[lesson], stranger, known[stranger])
        for lesson, stranger in zip(lessons, strangers, strict=True)
    ]


def mixed(lesson: Lesson, other: Lesson, *, context: int | None = None) -> Lesson:
    """What `lesson` shows before its first action, and `other` from its own first action on."""
    before, start = _opening(lesson), _opening(other)
    ids = (*lesson.token_ids[:before], *other.token_ids[start:])
    mask = (*lesson.loss_mask[:before], *other.loss_mask[start:])
    return Lesson(ids[:context], mask[:context], other.success)


def _opening(lesson: Lesson) -> int:
    """Tokens before the agent's first."""
    return lesson.loss_mask.index(True) if any(lesson.loss_mask) else len(lesson.loss_mask)


def kto_losses(
    gains_B: Tensor, success_B: Tensor, divergence: float, options: KtoOptions
) -> Tensor:
    """The loss of each episode, by how much its log-probability is above the reference's."""
    above_B = torch.where(success_B, gains_B - divergence, divergence - gains_B)
    weight_B = torch.where(success_B, options.desirable_weight, options.undesirable_weight)
    return weight_B * (1 - torch.sigmoid(options.beta * above_B))


def kto(
    model: Any,
    lessons: Sequence[Judged],
    own: Sequence[Sequence[Judged]],
    place: TrainerSection,
    share: Share,
    *,
    options: KtoOptions,
) -> float:
    """The mean loss of the batch's episodes, and the weighted likelihood of its successes."""
    divergence = _divergence(model, lessons, place, share)
    won = learned_tokens(lesson for lesson in lessons if lesson.success)
    total = 0.0
    for piece in own:
        chances_B = episode_chances(model, make_batch(piece).to(place.device))
        before_B = chances_B.new_tensor([lesson.reference for lesson in piece])
        success_B = torch.tensor([lesson.success for lesson in piece], device=place.device)
        losses_B = kto_losses(chances_B - before_B, success_B, divergence, options)
        loss = losses_B.sum() / len(lessons)
        if won:
            loss = loss - options.sft_weight * chances_B[success_B].sum() / won
        if loss.requires_grad:  # not without a token of the agent
            loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def _divergence(
    model: Any, lessons: Sequence[Judged], place: TrainerSection, share: Share
) -> float:
    """By how much the log-probability of mixed episodes is above the reference's; never negative.

    It has no gradient, so it is computed first, and is the same for all pieces and processes.
    """
    strangers = [lesson.stranger for lesson in lessons]
    longest = max(len(stranger.token_ids) for stranger in strangers)
    fit = FitContext(place, share, longest, len(lessons), lambda: None)
    now = log_probabilities(model, strangers, fit)
    gains = [now[lesson.stranger] - lesson.stranger_reference for lesson in lessons]
    return max(0.0, sum(gains) / len(gains))
