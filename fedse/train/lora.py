"""Fine-tune a LoRA adapter on trajectories: the paper's local step, with PEFT and AdamW."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

from fedse.agent.loaded import Base, load_base
from fedse.config.hardware import TrainerSection
from fedse.config.schema import TrainSection
from fedse.errors import TrainError
from fedse.seeds import seed_of
from fedse.train.batch import Lesson, T, Tokenized, learned_tokens, lesson_of
from fedse.train.kto import judge, kto_objective
from fedse.train.launch import fit_in_processes
from fedse.train.optimise import Share, StepTaken, take_steps
from fedse.train.order import FitOrder
from fedse.types import Adapter, AdapterSpec, Fitted, FloatVector


class Trainer:
    """Fits adapters of one spec on the process's base model, or in processes of their own."""

    def __init__(self, path: Path, spec: AdapterSpec, place: TrainerSection) -> None:
        self.path, self.spec, self.place = path, spec, place

    def fit(
        self,
        start: Adapter,
        lessons: Sequence[Tokenized],
        *,
        settings: TrainSection,
        context: int,
        seed: int,
        share: Share = Share(),  # noqa: B008  a value that nobody changes
    ) -> Fitted:
        """The adapter after `settings.epochs` passes over `lessons`, from a fresh optimiser.

        Every turn of every lesson has its tokens. With `share` this process is one of several.
        """
        kept = [lesson_of(lesson, context=context) for lesson in lessons]
        batches = list(batches_of(kept, settings, seed=seed))
        for batch in batches:
            _require_own_tokens(batch, context)
        if self.place.processes > 1:
            return fit_in_processes(self._order(kept, settings, context, seed), start)
        model = self.model()
        load_adapter(model, start)
        train = partial(take_steps, model, settings=settings, place=self.place, share=share)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(seed, "fit"))
            if settings.loss == "kto":
                judged = judge(model, kept, settings, self.place, context=context, share=share)
                whole = list(batches_of(judged, settings, seed=seed))
                steps = list(train(whole, objective=kto_objective(settings)))
            else:
                steps = list(train(batches))
        return _fitted(read_adapter(model, self.spec), steps, epochs=settings.epochs)

    def _order(
        self, lessons: Sequence[Lesson], settings: TrainSection, context: int, seed: int
    ) -> FitOrder:
        return FitOrder(
            base=self.path,
            spec=self.spec,
            place=self.place,
            settings=settings,
            context=context,
            seed=seed,
            lessons=tuple(lessons),
        )

    def model(self) -> Any:
        """PEFT's model with the published weights; loaded when it is first needed."""
        device, precision = self.place.device, self.place.precision
        return adapted(load_base(self.path, device=device, precision=precision), self.spec)


def _fitted(adapter: Adapter, steps: Sequence[StepTaken], *, epochs: int) -> Fitted:
    last_epoch = steps[-max(1, math.ceil(len(steps) / epochs)) :]
    return Fitted(
        adapter,
        loss=sum(step.loss for step in last_epoch) / len(last_epoch),
        steps=len(steps),
        tokens=sum(step.tokens for step in steps),
        padded=sum(step.padded for step in steps),
    )


def trainer_for(path: Path, spec: AdapterSpec, place: TrainerSection | None = None) -> Trainer:
    """A trainer on the base model of this process, which all clients share, one after another."""
    return Trainer(path, spec, place or TrainerSection())


def adapted(base: Base, spec: AdapterSpec) -> Any:
    """PEFT's model around the published weights, with room for one adapter of `spec`."""
    wanted = lora_config(spec)
    if base.adapted is not None and not _alike(base.adapted.peft_config["default"], wanted):
        base.adapted.unload()
        base.adapted = None
    if base.adapted is None:
        base.adapted = get_peft_model(base.model, wanted)
    base.restore()
    return base.adapted


def _alike(one: LoraConfig, other: LoraConfig) -> bool:
    def layout(config: LoraConfig) -> tuple[int, float, list[str]]:
        return config.r, config.lora_alpha, sorted(config.target_modules)

    return layout(one) == layout(other)


def lora_config(spec: AdapterSpec) -> LoraConfig:
    return LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,
        lora_dropout=0.0,
        target_modules=list(spec.target_modules),
        task_type="CAUSAL_LM",
    )


def load_adapter(model: Any, adapter: Adapter) -> None:
    """The PEFT model acts as base plus `adapter`."""
    state = {name: torch.from_numpy(t.copy()) for name, t in adapter.tensors().items()}
    result = set_peft_model_state_dict(model, state)
    if result.unexpected_keys:
        raise TrainError(f"the model has no place for {result.unexpected_keys[0]!r}")


def read_adapter(model: Any, spec: AdapterSpec) -> Adapter:
    """The adapter the PEFT model now holds, in the layout of `spec`."""
    state = get_peft_model_state_dict(model)
    parts: list[FloatVector] = []
    for tensor in spec.tensors:
        values = state[tensor.name].detach().to("cpu", torch.float32)
        if tuple(values.shape) != tensor.shape:
            raise TrainError(f"{tensor.name} has shape {tuple(values.shape)}, not {tensor.shape}")
        parts.append(values.reshape(-1).numpy())
    vector = torch.cat([torch.from_numpy(part) for part in parts]).numpy()
    return Adapter(spec, vector)


def batches_of(lessons: Sequence[T], settings: TrainSection, *, seed: int) -> Iterator[list[T]]:
    """The lessons of each step of a fit, every epoch in an order of its own."""
    count = 0
    for epoch in range(settings.epochs):
        order = list(lessons)
        Random(seed_of(seed, "epoch", epoch)).shuffle(order)
        for start in range(0, len(order), settings.batch):
            if settings.max_steps is not None and count >= settings.max_steps:
                return
            count += 1
            yield order[start : start + settings.batch]


def _require_own_tokens(batch: Sequence[Lesson], context: int) -> None:
    """There is a token to learn from; without one the mean loss would be 0/0."""
    if not learned_tokens(batch):
        raise TrainError(
            f"no action of {len(batch)} episodes begins within rollout.context = "
            f"{context} tokens, so there is nothing to learn from",
            hint="--set rollout.context=N with a larger N: prompt and actions must fit",
        )
