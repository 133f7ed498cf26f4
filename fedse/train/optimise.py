"""The optimiser's steps: AdamW on its arc, each batch whole, in pieces, or over processes."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Arc
from fedse.errors import TrainError, boundary
from fedse.train.batch import (
    Batch,
    Batches,
    T,
    Tokenized,
    agent_loss,
    learned_tokens,
    make_batch,
    make_pieces,
    padded_tokens,
)

MAX_GRAD_NORM = 1.0
"""Longer gradients are shortened to this (the paper gives no figure)."""


class Share(NamedTuple):
    """Which of the pieces this process computes, and how the processes add up what they found."""

    process: int = 0
    processes: int = 1
    add: Callable[[Tensor], Tensor] = lambda found: found


Objective = Callable[[Any, Sequence[T], Sequence[Sequence[T]], TrainerSection, Share], float]
"""Model, batch, this process's pieces of it, hardware, share -> its part of the loss.

The gradient of that part is added up in the model's parameters.
"""


class StepTaken(NamedTuple):
    loss: float
    tokens: int
    """Tokens of the batch."""
    padded: int
    """Tokens computed for it, padding included."""
    longest: float = 0.0
    """The norm of the longest gradient of a unit, of a step with noise; 0 = there was none."""


def make_optimizer(model: Any, settings: TrainSection) -> AdamW:
    """A fresh optimiser of the model's trainable parameters."""
    return AdamW(trainable(model), lr=settings.lr, weight_decay=0.0)


def trainable(model: Any) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def likelihood(
    model: Any,
    lessons: Sequence[Tokenized],
    own: Sequence[Sequence[Tokenized]],
    place: TrainerSection,
    share: Share,
) -> float:
    """The objective of the paper: the mean over all agent's tokens of a batch that has some."""
    return accumulate(model, own, of=learned_tokens(lessons), device=place.device)


def take_steps(
    model: Any,
    batches: Batches[T],
    settings: TrainSection,
    place: TrainerSection,
    share: Share = Share(),  # noqa: B008  a value that nobody changes
    arc: Arc = Arc(),  # noqa: B008  as above
    optimizer: AdamW | None = None,
    *,
    objective: Objective[T] = likelihood,
) -> Iterator[StepTaken]:
    """The model's trainable parameters after one step per batch, by a fresh optimiser or this one.

    However a batch is divided, its gradient is that of the whole batch.
    """
    with resting_factor(model, settings.factors):
        optimizer = optimizer or make_optimizer(model, settings)
        yield from _take_steps(model, batches, place, share, arc, optimizer, objective)


def _take_steps(
    model: Any,
    batches: Batches[T],
    place: TrainerSection,
    share: Share,
    arc: Arc,
    optimizer: AdamW,
    objective: Objective[T],
) -> Iterator[StepTaken]:
    parameters = trainable(model)
    # Without warm-up, as published.
    schedule = LambdaLR(optimizer, lambda step: arc.rate(step, of=len(batches)))
    with training_mode(model, place):
        for lessons in batches:
            pieces = make_pieces(lessons, max_tokens=place.max_tokens, parts=share.processes)
            own = pieces[share.process :: share.processes]
            loss = objective(model, lessons, own, place, share)
            if share.processes > 1:
                loss = _add_up(parameters, loss, share.add)
            if not math.isfinite(loss):
                raise TrainError("training loss is not finite", hint="lower train.lr")
            torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            tokens = sum(len(lesson.token_ids) for lesson in lessons)
            yield StepTaken(loss, tokens, sum(map(padded_tokens, pieces)))


def resting_factor(model: Any, factors: str) -> AbstractContextManager[None]:
    """Inside, A has no gradient if only B is learned; afterwards both have one again."""
    return at_rest(model, lambda name: factors == "b" and ".lora_A." in name)


@contextmanager
def at_rest(model: Any, rests: Callable[[str], bool]) -> Iterator[None]:
    """Inside, the tensors of these names have no gradient; afterwards they have one again."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    frozen = [parameter for name, parameter in named if rests(name)]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


@contextmanager
def training_mode(model: Any, place: TrainerSection) -> Iterator[None]:
    """The model is set to train inside; outside others generate with it, however this ended."""
    base = model.get_base_model()
    attention = base.config._attn_implementation
    if place.attention is not None:
        with boundary(TrainError, f"trainer.attention = {place.attention!r}"):
            base.set_attn_implementation(place.attention)
    if place.checkpointing:
        # Non-reentrant, so the inputs of the first layer need no gradient.
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    try:
        yield
    finally:
        model.eval()
        model.zero_grad()
        if place.checkpointing:
            model.gradient_checkpointing_disable()
        if place.attention is not None:
            base.set_attn_implementation(attention)


def accumulate(model: Any, pieces: Sequence[Sequence[Tokenized]], *, of: int, device: str) -> float:
    """The pieces' part of the batch's mean loss over `of` tokens; its gradient is added up."""
    total = 0.0
    for piece in pieces:
        learned = learned_tokens(piece)
        if learned:
            # A batch of one piece has the weight 1, so its bits are those of the plain mean.
            batch = make_batch(piece).to(device)
            loss = batch_loss(model, batch) * (learned / of)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
    return total


def batch_loss(model: Any, batch: Batch) -> Tensor:
    """Mean negative log-likelihood of the agent's tokens under a PEFT model."""
    return agent_loss(agent_logits(model, batch), batch.labels_B_T)


def agent_logits(model: Any, batch: Batch) -> Tensor:
    """The logits at the N places that predict a token of the agent, row by row.

    No others are computed, if the architecture can leave them out.
    """
    inputs = {"input_ids": batch.ids_B_T, "attention_mask": batch.attention_B_T}
    where = batch.predicting_B_T
    if "logits_to_keep" in inspect.signature(model.get_base_model().forward).parameters:
        logits_N_V: Tensor = model(**inputs, use_cache=False, logits_to_keep=where).logits
    else:
        logits_N_V = model(**inputs, use_cache=False).logits[where]
    return logits_N_V


def _add_up(parameters: Sequence[Any], loss: float, add: Callable[[Tensor], Tensor]) -> float:
    """Every process has the sum of all gradients and of all losses."""
    device = parameters[0].device
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    mine = torch.cat([*(part.flatten() for part in parts), torch.tensor([loss], device=device)])
    *gradients, total = torch.split(add(mine), [*(p.numel() for p in parameters), 1])
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view_as(parameter)
    return float(total)
