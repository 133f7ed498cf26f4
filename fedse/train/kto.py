"""KTO: towards the episodes that were won, away from those that were lost, from where a fit starts.

Kahneman-Tversky optimisation (arXiv 2402.01306) on the log-probability of all the agent's own
tokens of an episode, with the likelihood of the successes added. What counts is how much that has
gained since the reference, compared with how much the log-probability of any other text has: the
divergence, estimated as in the paper from episodes that do not fit together.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.train.batch import IGNORED, Batch, Lesson, learned_tokens, make_batch, make_pieces
from fedse.train.optimise import Objective, Share, agent_logits


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
    model: Any,
    lessons: Sequence[Lesson],
    settings: TrainSection,
    place: TrainerSection,
    *,
    context: int | None = None,
    share: Share = Share(),  # noqa: B008  a value that nobody changes
    beat: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """The lessons in their order, with their log-probabilities by the model as it is now.

    Each is mixed with the one after it, the last with the first. With `settings.reference` = base
    the adapter is left out.
    """
    others = [*lessons[1:], *lessons[:1]]
    strangers = [mixed(*pair, context=context) for pair in zip(lessons, others, strict=True)]
    without = model.disable_adapter() if settings.reference == "base" else nullcontext()
    with torch.no_grad(), without:
        known = _chances(model, [*lessons, *strangers], settings.batch, place, share, beat)
    return [
        Judged(*lesson, known[lesson], stranger, known[stranger])
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


def kto_objective(settings: TrainSection) -> Objective[Judged]:
    """The objective of `train.loss = "kto"`."""
    return partial(_kto, settings=settings)


def kto_losses(
    gains_B: Tensor, success_B: Tensor, divergence: float, settings: TrainSection
) -> Tensor:
    """The loss of each episode, by how much its log-probability is above the reference's."""
    above_B = torch.where(success_B, gains_B - divergence, divergence - gains_B)
    weight_B = torch.where(success_B, settings.desirable_weight, settings.undesirable_weight)
    return weight_B * (1 - torch.sigmoid(settings.beta * above_B))


def episode_chances(model: Any, batch: Batch) -> Tensor:
    """The log-probability of the agent's tokens of each row; 0 for a row without one."""
    labels_B_T = batch.labels_B_T[:, 1:]
    learned_B_T = labels_B_T != IGNORED
    sums_B = torch.zeros(len(labels_B_T), device=labels_B_T.device)
    if not learned_B_T.any():
        return sums_B
    log_chances_N_V = F.log_softmax(agent_logits(model, batch).float(), dim=-1)
    chosen_N = log_chances_N_V.gather(1, labels_B_T[learned_B_T][:, None])[:, 0]
    return sums_B.index_add(0, learned_B_T.nonzero()[:, 0], chosen_N)


def _kto(
    model: Any,
    lessons: Sequence[Judged],
    own: Sequence[Sequence[Judged]],
    place: TrainerSection,
    share: Share,
    *,
    settings: TrainSection,
) -> float:
    """The mean loss of the batch's episodes, and the weighted likelihood of its successes."""
    divergence = _divergence(model, lessons, place, share)
    won = learned_tokens(lesson for lesson in lessons if lesson.success)
    total = 0.0
    for piece in own:
        chances_B = episode_chances(model, make_batch(piece).to(place.device))
        before_B = chances_B.new_tensor([lesson.reference for lesson in piece])
        success_B = torch.tensor([lesson.success for lesson in piece], device=place.device)
        losses_B = kto_losses(chances_B - before_B, success_B, divergence, settings)
        loss = losses_B.sum() / len(lessons)
        if won:
            loss = loss - settings.sft_weight * chances_B[success_B].sum() / won
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
    with torch.no_grad():
        now = _chances(model, strangers, len(lessons), place, share)
    gains = [now[lesson.stranger] - lesson.stranger_reference for lesson in lessons]
    return max(0.0, sum(gains) / len(gains))


def _chances(
    model: Any,
    lessons: Sequence[Lesson],
    batch: int,
    place: TrainerSection,
    share: Share,
    beat: Callable[[], None] = lambda: None,
) -> dict[Lesson, float]:
    """The log-probability of each lesson, `batch` at a time, each process computing its share."""
    different = list(dict.fromkeys(lessons))
    row_of = {lesson: row for row, lesson in enumerate(different)}
    found = torch.zeros(len(different), device=place.device)
    for start in range(0, len(different), batch):
        group = different[start : start + batch]
        pieces = make_pieces(group, max_tokens=place.max_tokens, parts=share.processes)
        for piece in pieces[share.process :: share.processes]:
            rows = torch.tensor([row_of[lesson] for lesson in piece], device=place.device)
            found[rows] = episode_chances(model, make_batch(piece).to(place.device))
            beat()
    return dict(zip(different, share.add(found).tolist(), strict=True))
