"""How fast a fit is, beside a bare PEFT loop over the same batches on the same model.

The bare loop has the trainer's precision and attention, so the two differ in what fedse adds only.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch.optim import AdamW

from fedse.config.training import TrainSection
from fedse.train.batch import Lesson, make_batch, padded_tokens
from fedse.train.lora import Trainer, load_adapter
from fedse.train.optimise import MAX_GRAD_NORM, training_mode
from fedse.train.passes import FitBatches
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
    """A fit and the bare loop, one after the other."""

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
) -> Iterator[FitSpeed]:
    """The pace of `trainer.fit` and of a bare loop over the same batches, once per repeat.

    One step of each comes first and is not counted. The bare loop is what PEFT's guide shows: whole
    batches, all logits, the architecture's own loss.
    """
    context = max(len(lesson.token_ids) for lesson in lessons)
    batches = list(FitBatches(lessons, settings, seed=seed))

    def fit(options: TrainSection) -> tuple[int, int]:
        fitted = trainer.fit(start, lessons, settings=options, context=context, seed=seed)
        return fitted.tokens, fitted.padded

    def bare(options: TrainSection) -> tuple[int, int]:
        chosen = batches[: options.steps]
        bare_loop(trainer, start, chosen, settings=options)
        tokens = sum(len(lesson.token_ids) for batch in chosen for lesson in batch)
        return tokens, sum(map(padded_tokens, chosen))

    short = settings.model_copy(update={"epochs": None, "max_steps": None, "steps": 1})
    for run in (fit, bare):
        run(short)
    for _ in range(repeats):
        yield FitSpeed(_pace(fit, settings, clock), _pace(bare, settings, clock))


def _pace(
    run: Callable[[TrainSection], tuple[int, int]], settings: TrainSection, clock: Clock
) -> Pace:
    started = clock()
    tokens, padded = run(settings)
    return Pace(tokens, padded, clock() - started)


def bare_loop(
    trainer: Trainer, start: Adapter, batches: Sequence[list[Lesson]], *, settings: TrainSection
) -> None:
    """One step per batch with nothing of ours but the tensors."""
    model = trainer.model()
    load_adapter(model, start)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamW(parameters, lr=settings.lr, weight_decay=0.0)
    with training_mode(model, trainer.place):
        for lessons in batches:
            ids, attention, labels = make_batch(lessons).to(trainer.place.device)
            model(input_ids=ids, attention_mask=attention, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
            optimizer.step()
            optimizer.zero_grad()


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
