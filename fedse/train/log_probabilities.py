"""Log-probabilities of whole episodes, as losses that compare them with a reference need them."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedse.train.batch import IGNORED, Batch, Lesson, make_batch, make_pieces
from fedse.train.loss import FitContext
from fedse.train.optimise import agent_logits


def token_chances(model: Any, batch: Batch) -> Tensor:
    """The log-probability of each token of the agent, row by row; the batch has at least one."""
    labels_B_T = batch.labels_B_T[:, 1:]
    log_chances_N_V = F.log_softmax(agent_logits(model, batch).float(), dim=-1)
    return log_chances_N_V.gather(1, labels_B_T[labels_B_T != IGNORED][:, None])[:, 0]


def episode_chances(model: Any, batch: Batch) -> Tensor:
    """The log-probability of the agent's tokens of each row; 0 for a row without one."""
    learned_B_T = batch.labels_B_T[:, 1:] != IGNORED
    sums_B = torch.zeros(len(learned_B_T), device=learned_B_T.device)
    if not learned_B_T.any():
        return sums_B
    return sums_B.index_add(0, learned_B_T.nonzero()[:, 0], token_chances(model, batch))


def log_probabilities(
    model: Any, lessons: Sequence[Lesson], fit: FitContext
) -> dict[Lesson, float]:
    """That of each lesson by the model as it is, `fit.batch` at a time, without a gradient.

    Each process computes its share, and all have all of them. With `model.disable_adapter()` they
    are those of the base model.
    """
    different, place, share = list(dict.fromkeys(lessons)), fit.place, fit.share
    row_of = {lesson: row for row, lesson in enumerate(different)}
    found = torch.zeros(len(different), device=place.device)
    with torch.no_grad():
        for start in range(0, len(different), fit.batch):
            group = different[start : start + fit.batch]
            pieces = make_pieces(group, max_tokens=place.max_tokens, parts=share.processes)
            for piece in pieces[share.process :: share.processes]:
                rows = torch.tensor([row_of[lesson] for lesson in piece], device=place.device)
                found[rows] = episode_chances(model, make_batch(piece).to(place.device))
                fit.beat()
    return dict(zip(different, share.add(found).tolist(), strict=True))
