"""The gradient of each unit by itself, in one pass over many: of a linear layer it is a product.

A LoRA factor is a linear layer without bias, and no row of a batch sees another one. So the
gradient of a row is that of the layer's outputs in the row times its inputs (the method of Opacus,
arXiv 2109.12298), and no unit needs a pass of its own.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedse.config.hardware import TrainerSection
from fedse.errors import TrainError
from fedse.train.batch import IGNORED, Batch, Lesson, learned_tokens, make_batch, make_pieces
from fedse.train.log_probabilities import episode_chances
from fedse.train.optimise import trainable

TOGETHER = 16
"""Units whose gradients are in memory at once."""

UnitLessons = Sequence[Lesson]


class OwnedLesson(NamedTuple):
    """A lesson, and which of the units it belongs to."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool
    owner: int
    share: float = 1.0
    """Of its mean loss in that of its episode."""


class ClippedSum(NamedTuple):
    """What a step takes from its units."""

    total: Tensor
    """The sum of their gradients, each shortened, in float64."""
    loss: float
    """The mean of their losses."""
    longest: float
    """The norm of the longest finite gradient before it was shortened; 0 = there was no unit."""


def clipped_sum(
    model: Any, units: Sequence[UnitLessons], place: TrainerSection, *, clip: float
) -> ClippedSum:
    """The units' gradients, each shortened to `clip`, are added up."""
    total = torch.zeros(sum(p.numel() for p in trainable(model)), dtype=torch.float64)
    losses = longest = 0.0
    for start in range(0, len(units), TOGETHER):
        gradients_U_P, loss = unit_gradients(model, units[start : start + TOGETHER], place)
        total += shortened(gradients_U_P, clip).sum(dim=0)
        losses, longest = losses + loss, max(longest, longest_of(gradients_U_P))
    return ClippedSum(total, losses / max(1, len(units)), longest)


def longest_of(gradients_U_P: Tensor) -> float:
    """The norm of the longest finite row; 0 = there is none."""
    norms: list[float] = gradients_U_P.to("cpu", torch.float64).norm(dim=1).tolist()
    return max(filter(math.isfinite, norms), default=0.0)


def shortened(gradients_U_P: Tensor, clip: float) -> Tensor:
    """Each row with a norm of at most `clip`, in float64; one that is not finite becomes zero."""
    rows_U_P = gradients_U_P.to("cpu", torch.float64)
    norms_U_1 = rows_U_P.norm(dim=1, keepdim=True)
    finite_U_1 = torch.isfinite(norms_U_1)
    factors_U_1 = torch.where(norms_U_1 > clip, clip / norms_U_1, 1.0)
    return torch.where(finite_U_1, rows_U_P * factors_U_1, 0.0)


def unit_gradients(
    model: Any, units: Sequence[UnitLessons], place: TrainerSection
) -> tuple[Tensor, float]:
    """One row per unit, in the order of the trainable parameters, and the sum of the losses.

    The loss of a unit is the sum over its episodes of the mean over their tokens of the agent, each
    with its weight.
    """
    parameters = trainable(model)
    sizes = [p.numel() for p in parameters]
    rows_U_P = torch.zeros(len(units), sum(sizes), device=place.device)
    pairs = [(owner, lesson) for owner, unit in enumerate(units) for lesson in unit]
    owned = [one for pair in pairs for one in owned_by(*pair)]
    learnable = [lesson for lesson in owned if learned_tokens([lesson])]
    total = 0.0
    for piece in make_pieces(learnable, max_tokens=place.max_tokens) if learnable else ():
        batch = make_batch(piece).to(place.device)
        owners = torch.tensor([lesson.owner for lesson in piece], device=place.device)
        with row_gradients(model, len(piece)) as found:
            losses_B = _episode_losses(model, batch)
            loss = (losses_B * losses_B.new_tensor([lesson.share for lesson in piece])).sum()
            loss.backward()  # type: ignore[no-untyped-call]
        missing = rows_U_P.new_zeros(len(piece), 1)
        parts = [
            found[p].flatten(1) if p in found else missing.expand(-1, p.numel()) for p in parameters
        ]
        rows_U_P.index_add_(0, owners, torch.cat(parts, dim=1))
        total += loss.item()
    model.zero_grad()
    return rows_U_P, total


def owned_by(owner: int, lesson: Lesson) -> list[OwnedLesson]:
    """The sequences of an episode, each with its share of the episode's tokens by their weights."""
    if not lesson.parts:
        return [OwnedLesson(*lesson[:3], owner)]
    weights = [part.weight * learned_tokens([part]) for part in lesson.parts]
    whole = sum(weights) or 1.0
    return [
        OwnedLesson(*part[:3], owner, weight / whole)
        for part, weight in zip(lesson.parts, weights, strict=True)
    ]


def _episode_losses(model: Any, batch: Batch) -> Tensor:
    """Of each row the mean negative log-likelihood of the agent's tokens; every row has some."""
    learned_B_T = batch.labels_B_T[:, 1:] != IGNORED
    return -episode_chances(model, batch) / learned_B_T.sum(dim=1)


@contextmanager
def row_gradients(model: Any, rows: int) -> Iterator[dict[Tensor, Tensor]]:
    """Filled by a backward pass inside: of each trainable parameter the gradient of each row."""
    found: dict[Tensor, Tensor] = {}
    hooks = [
        module.register_forward_hook(partial(_watch, found, rows))
        for name, module in model.named_modules()
        if _is_learned(name, module)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _is_learned(name: str, module: nn.Module) -> bool:
    own = [p for p in module.parameters(recurse=False) if p.requires_grad]
    if own and not (isinstance(module, nn.Linear) and module.bias is None):
        raise TrainError(
            f"privacy.epsilon needs linear layers without bias, {name} is {type(module).__name__}",
            hint="choose other model.targets",
        )
    return bool(own)


def _watch(
    found: dict[Tensor, Tensor],
    rows: int,
    module: nn.Linear,
    inputs: tuple[Tensor, ...],
    output: Tensor,
) -> None:
    given_B_T_I = inputs[0].detach()
    if given_B_T_I.dim() != 3 or len(given_B_T_I) != rows:
        raise TrainError(
            "privacy.epsilon: a layer mixes the episodes of a batch, so their gradients cannot be "
            "told apart",
            hint="choose other model.targets, such as those of the attention only",
        )

    def keep(gradient_B_T_O: Tensor) -> None:
        part = torch.einsum("bto,bti->boi", gradient_B_T_O, given_B_T_I.to(gradient_B_T_O.dtype))
        weight = module.weight
        found[weight] = found[weight] + part if weight in found else part

    if output.requires_grad:
        output.register_hook(keep)  # type: ignore[no-untyped-call]
