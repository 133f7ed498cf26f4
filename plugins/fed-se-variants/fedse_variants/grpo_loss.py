"""GRPO on recorded games: the policy gradient with the other games of a task as the baseline.

A game's advantage is its reward minus the mean reward of the other games of its task (RLOO,
arXiv 2402.14740), without division by the standard deviation, and holds for all its tokens. The
log-probabilities of the rollout are the old ones, so a token's ratio also corrects for what the
engine computes differently from the trainer; it is clipped (PPO) and truncated at `cap`. The sum is
divided by the tokens of the batch, so that long games count as much per token as short ones.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedse.extend.learning import FitContext, TrainError, TrainerSection
from fedse.extend.losses import (
    Lesson,
    LessonOrigin,
    Share,
    learned_tokens,
    make_batch,
    make_pieces,
    token_chances,
)
from fedse_variants.grpo import GrpoOptions

MOST_APART = 0.02
"""Nats per token by which the model that played and the one that is trained may differ."""


class Weighed(NamedTuple):
    """A lesson with all that its loss depends on but the model as it is now."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool
    advantage: float
    old: tuple[float, ...]
    """Log-probabilities of the tokens that are learned from when they were drawn."""
    start: tuple[float, ...]
    """The same by the model that the fit starts with."""


def advantages(rewards: Sequence[float]) -> list[float]:
    """Each reward minus the mean of the others; 0 without others."""
    total, others = sum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others if others else 0.0 for reward in rewards]


def weigh(model: Any, lessons: Sequence[Lesson], fit: FitContext) -> list[Weighed]:
    """The lessons in their order, each with its advantage among the games of its task.

    Those whose log-probabilities are not known, since they were redacted or had to keep a shape,
    count for the others' advantages and are left out. A TrainError unless all were played by the
    adapter that the fit starts from, and its log-probabilities here are those of then.
    """
    origins = [_own_origin(lesson, fit) for lesson in lessons]
    weights = weights_of(origins)
    rows = [row for row, lesson in enumerate(lessons) if _is_known(lesson, origins[row])]
    if not rows:
        raise TrainError(
            "grpo needs the log-probabilities with which tokens were drawn, and no game has them: "
            "all were redacted, or had to keep a shape",
            hint='set train.loss = "sft"',
        )
    usable = [lessons[row] for row in rows]
    old = [_learned(lessons[row], origins[row]) for row in rows]
    start = start_chances(model, usable, fit)
    _require_near(old, start)
    own = [weights[row] for row in rows]
    each = zip(own, old, start, strict=True)
    return [Weighed(*one[:3], *rest) for one, rest in zip(usable, each, strict=True)]


def weights_of(origins: Sequence[LessonOrigin]) -> list[float]:
    """The advantage of each game among those of its task, in their order."""
    groups: dict[str, list[int]] = {}
    for row, origin in enumerate(origins):
        groups.setdefault(origin.task, []).append(row)
    found: dict[int, float] = {}
    for rows in groups.values():
        found |= zip(rows, advantages([origins[row].reward for row in rows]), strict=True)
    return [found[row] for row in range(len(origins))]


def _own_origin(lesson: Lesson, fit: FitContext) -> LessonOrigin:
    """How a lesson was played, by the adapter that the fit starts from."""
    origin = lesson.origin
    if origin is None or origin.policy != fit.start:
        played = origin.policy[:12] if origin else "nobody known"
        raise TrainError(
            f"grpo learns from games of the adapter it starts from, {fit.start[:12]}, and a game "
            f"was played by {played}",
            hint="play the round again: fedse run CONFIG",
        )
    return origin


def _is_known(lesson: Lesson, origin: LessonOrigin) -> bool:
    return len(origin.log_chances) == len(lesson.token_ids)


def _learned(lesson: Lesson, origin: LessonOrigin) -> tuple[float, ...]:
    """Those of the tokens that are learned from; nothing predicts the first one of an episode."""
    places = range(1, len(lesson.loss_mask))
    return tuple(origin.log_chances[place] for place in places if lesson.loss_mask[place])


def _require_near(old: Sequence[Sequence[float]], start: Sequence[Sequence[float]]) -> None:
    pairs = [pair for both in zip(old, start, strict=True) for pair in zip(*both, strict=True)]
    apart = sum(abs(then - now) for then, now in pairs) / max(1, len(pairs))
    if not apart <= MOST_APART:
        raise TrainError(
            f"the model that played and the one that is trained differ by {apart:.3f} nats per "
            f"token before the first step, at most {MOST_APART} is allowed",
            hint='let both compute alike: trainer.precision = "float32", and the same for the '
            "engine (fedse engine check CONFIG)",
        )


def start_chances(
    model: Any, lessons: Sequence[Lesson], fit: FitContext
) -> list[tuple[float, ...]]:
    """Those of the tokens that are learned from, by the model as it is, without a gradient.

    Each process computes its share, and all have all of them.
    """
    lengths = [learned_tokens([lesson]) for lesson in lessons]
    placed = [_Placed(*one[:2], row) for row, one in enumerate(lessons)]
    place, share = fit.place, fit.share
    found = torch.zeros(len(lessons), max(lengths), device=place.device)
    with torch.no_grad():
        for first in range(0, len(lessons), fit.batch):
            group = placed[first : first + fit.batch]
            pieces = make_pieces(group, max_tokens=place.max_tokens, parts=share.processes)
            for piece in pieces[share.process :: share.processes]:
                if learned_tokens(piece):
                    chances = token_chances(model, make_batch(piece).to(place.device))
                    for one, own in zip(piece, _cut(chances, piece), strict=True):
                        found[one.row, : len(own)] = own
                fit.beat()
    rows = share.add(found).tolist()
    return [tuple(row[:length]) for row, length in zip(rows, lengths, strict=True)]


class _Placed(NamedTuple):
    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    row: int
    success: bool = True


def _cut(chances_N: Tensor, piece: Sequence[_Placed]) -> Sequence[Tensor]:
    return torch.split(chances_N, [learned_tokens([one]) for one in piece])


def grpo_losses(
    now_N: Tensor, old_N: Tensor, start_N: Tensor, advantage_N: Tensor, options: GrpoOptions
) -> Tensor:
    """The loss of each token, by its log-probability now, when it was drawn and at the start."""
    low, high = options.clip
    ratio_N = torch.exp(now_N - old_N)
    clipped_N = ratio_N.clamp(1 - low, 1 + high) * advantage_N
    loss_N = -torch.min(ratio_N.clamp(max=options.cap) * advantage_N, clipped_N)
    if not options.kl:
        return loss_N
    gap_N = start_N - now_N
    return loss_N + options.kl * (torch.exp(gap_N) - gap_N - 1)


def grpo(
    model: Any,
    lessons: Sequence[Weighed],
    own: Sequence[Sequence[Weighed]],
    place: TrainerSection,
    share: Share,
    *,
    options: GrpoOptions,
) -> float:
    """The mean loss over all tokens of the batch that are learned from."""
    total, tokens = 0.0, learned_tokens(lessons)
    for piece in own:
        if learned_tokens(piece):
            now_N = token_chances(model, make_batch(piece).to(place.device))
            old_N = now_N.new_tensor([x for lesson in piece for x in lesson.old])
            start_N = now_N.new_tensor([x for lesson in piece for x in lesson.start])
            weights = [lesson.advantage for lesson in piece for _ in lesson.old]
            losses_N = grpo_losses(now_N, old_N, start_N, now_N.new_tensor(weights), options)
            loss = losses_N.sum() / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
    return total
