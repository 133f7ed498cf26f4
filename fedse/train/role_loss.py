"""The likelihood of an agent of several roles, with how much of its gradient each role gives."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedse.config.hardware import TrainerSection
from fedse.role_figures import RoleFit
from fedse.train.batch import Batches, Tokenized, learned_tokens, make_batch, sequences_of
from fedse.train.log_probabilities import episode_chances
from fedse.train.optimise import Share, trainable


class RoleStep(NamedTuple):
    """What one role gave to one step."""

    nats: float
    """Of its tokens, each with its weight 1."""
    tokens: int
    gradient: float
    """Norm of its part of the gradient, with the weights, before it is shortened."""


class SequenceBatches:
    """The same batches; an episode of several conversations is one sequence for each of them."""

    def __init__(self, batches: Batches[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return (sequences_of(batch) for batch in self._batches)


class RoleLikelihood:
    """The mean over all agent's tokens, each with the weight of its conversation.

    The roles' parts of the gradient are computed one after another, so each is known.
    """

    def __init__(self) -> None:
        self._steps: list[dict[str, RoleStep]] = []

    def __call__(
        self,
        model: Any,
        lessons: Sequence[Tokenized],
        own: Sequence[Sequence[Tokenized]],
        place: TrainerSection,
        share: Share,
    ) -> float:
        """This process's part of the loss of a batch; its gradient is added up in the model."""
        whole = sum(weight_of(one) * learned_tokens([one]) for one in lessons)
        roles = sorted({role_of(one) for piece in own for one in piece})
        total, found = 0.0, dict[str, RoleStep]()
        for role in roles:
            before, nats, tokens = _gradients(model), 0.0, 0
            for piece in own:
                mine = [one for one in piece if role_of(one) == role and learned_tokens([one])]
                if mine:
                    nats_B = -episode_chances(model, make_batch(mine).to(place.device))
                    weights_B = nats_B.new_tensor([weight_of(one) for one in mine])
                    loss = (nats_B * weights_B).sum() / whole
                    loss.backward()  # type: ignore[no-untyped-call]
                    total += loss.item()
                    nats += nats_B.sum().item()
                    tokens += learned_tokens(mine)
            found[role] = RoleStep(nats, tokens, _distance(_gradients(model), before))
        self._steps.append(found)
        return total

    def figures(self, *, last: int) -> dict[str, RoleFit]:
        """Of each role the loss of the `last` steps, and the mean norm of its gradient in all."""
        late, steps = self._steps[-last:], max(1, len(self._steps))
        found: dict[str, RoleFit] = {}
        for role in sorted({role for step in self._steps for role in step}):
            own = [step[role] for step in late if role in step]
            tokens = sum(one.tokens for one in own)
            loss = sum(one.nats for one in own) / max(1, tokens)
            mass = sum(step[role].gradient for step in self._steps if role in step) / steps
            found[role] = RoleFit(loss, mass, tokens)
        return found


def role_of(one: Tokenized) -> str:
    """Who speaks in a sequence; empty = an agent without roles."""
    return str(getattr(one, "role", ""))


def weight_of(one: Tokenized) -> float:
    """Of each token of a sequence in the loss."""
    return float(getattr(one, "weight", 1.0))


def _gradients(model: Any) -> list[Tensor]:
    found = [p.grad for p in trainable(model)]
    return [torch.zeros(()) if one is None else one.detach().clone() for one in found]


def _distance(after: Sequence[Tensor], before: Sequence[Tensor]) -> float:
    squares = (float(((x - y.to(x.device)) ** 2).sum()) for x, y in zip(after, before, strict=True))
    return math.sqrt(sum(squares))
