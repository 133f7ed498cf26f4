"""How fast a fit is, beside a bare PEFT loop over the same batches on the same model."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch.optim import AdamW

from fedse.config.training import TrainSection
from fedse.train.batch import Lesson, make_batch, padded_tokens
from fedse.train.lora import Trainer, load_adapter
from fedse.train.optimise import MAX_GRAD_NORM
from fedse.train.passes import batches_of
from fedse.types import Adapter, Clock


class Pace(NamedTuple):
    """Work and the time it took."""

    tokens: int
    """Tokens of the lessons, padding not counted."""
    padded: int
    """Tokens computed for them, padding included."""
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class FitSpeed(NamedTuple):
    """A fit and the bare loop, measured in turns."""

    fit: Pace
    bare: Pace

    @property
    def ratio(self) -> float:
        """Above 1 the fit is faster."""
        return self.fit.tokens_per_second / self.bare.tokens_per_second


def measure_fit(
    trainer: Trainer,
    start: Adapter,
    lessons: Sequence[Lesson],
    *,
    settings: TrainSection,
    seed: int,
    repeats: int,
    clock: Clock,
) -> FitSpeed:
    """The pace of `trainer.fit` and of a bare loop over the same batches, over all repeats.

    One step of each comes first and is not counted. The bare loop is what PEFT's guide shows: whole
    batches, all logits, the architecture's own loss.
    """
    context = max(len(lesson.token_ids) for lesson in lessons)
    batches = list(batches_of(lessons, settings, seed=seed))

    def fit(options: TrainSection) -> tuple[int, int]:
        fitted = trainer.fit(start, lessons, settings=options, context=context, seed=seed)
        return fitted.tokens, fitted.padded

    def bare(options: TrainSection) -> tuple[int, int]:
        chosen = batches[: options.steps]
        bare_loop(trainer, start, chosen, settings=options)
        tokens = sum(len(lesson.token_ids) for batch in chosen for lesson in batch)
        return tokens, sum(map(padded_tokens, chosen))

    short = settings.model_copy(update={"epochs": None, "max_steps": None, "steps": 1})
    paces = {fit: Pace(0, 0, 0.0), bare: Pace(0, 0, 0.0)}
    for run in paces:
        run(short)
    for _ in range(repeats):
        for run, before in paces.items():
            paces[run] = _added(before, run, settings, clock)
    return FitSpeed(paces[fit], paces[bare])


def _added(
    before: Pace,
    run: Callable[[TrainSection], tuple[int, int]],
    settings: TrainSection,
    clock: Clock,
) -> Pace:
    started = clock()
    tokens, padded = run(settings)
    seconds = before.seconds + clock() - started
    return Pace(before.tokens + tokens, before.padded + padded, seconds)


def bare_loop(
    trainer: Trainer, start: Adapter, batches: Sequence[list[Lesson]], *, settings: TrainSection
) -> None:
    """One step per batch with nothing of ours but the tensors."""
    model = trainer.model()
    load_adapter(model, start)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamW(parameters, lr=settings.lr, weight_decay=0.0)
    model.train()
    for lessons in batches:
        ids, attention, labels = make_batch(lessons).to(trainer.place.device)
        model(input_ids=ids, attention_mask=attention, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def synthetic_lessons(
    count: int, *, shortest: int, longest: int, vocabulary: int, seed: int
) -> list[Lesson]:
    """Dialogues of random tokens: observations of 30 tokens, actions of 10, lengths uniform."""
    random = Random(seed)
    lengths = [random.randint(shortest, longest) for _ in range(count)]
    return [
        Lesson(
            tuple(random.randrange(vocabulary) for _ in range(length)),
            tuple(place % 40 >= 30 for place in range(length)),
        )
        for length in lengths
    ]
