"""Trajectories -> padded tensors, and the loss: the agent's own tokens, nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedse.types import Trajectory

IGNORED = -100


class Batch(NamedTuple):
    ids_B_T: Tensor
    attention_B_T: Tensor
    labels_B_T: Tensor
    """The token itself where the agent sampled it, IGNORED everywhere else."""


def make_batch(episodes: Sequence[Trajectory], *, context: int) -> Batch:
    """Right-padded tensors; what lies beyond `context` tokens is cut off."""
    rows = [(e.token_ids[:context], e.loss_mask[:context]) for e in episodes]
    width = max(len(ids) for ids, _ in rows)
    ids_B_T = torch.zeros(len(rows), width, dtype=torch.long)
    attention_B_T = torch.zeros_like(ids_B_T)
    labels_B_T = torch.full_like(ids_B_T, IGNORED)
    for row, (ids, mask) in enumerate(rows):
        tokens = torch.tensor(ids, dtype=torch.long)
        ids_B_T[row, : len(ids)] = tokens
        attention_B_T[row, : len(ids)] = 1
        labels_B_T[row, : len(ids)] = torch.where(torch.tensor(mask), tokens, IGNORED)
    return Batch(ids_B_T, attention_B_T, labels_B_T)


def agent_loss(logits_B_T_V: Tensor, labels_B_T: Tensor) -> Tensor:
    """Mean negative log-likelihood of the agent's tokens (paper: the MLE objective)."""
    predicted = logits_B_T_V[:, :-1].flatten(0, 1).float()
    return F.cross_entropy(predicted, labels_B_T[:, 1:].flatten(), ignore_index=IGNORED)
