"""Fine-tune a LoRA adapter on trajectories: the paper's local step, with PEFT and AdamW."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

from fedse.agent.loaded import Base, load_base
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import TrainError
from fedse.lazy import Lazy
from fedse.seeds import seed_of
from fedse.train.batch import Batches, Lesson, T, Tokenized, learned_tokens, lesson_of
from fedse.train.launch import fit_in_processes
from fedse.train.loss import FitContext, Loss, loss_of
from fedse.train.moments import load_moments, save_moments
from fedse.train.optimise import (
    Objective,
    Share,
    StepTaken,
    at_rest,
    likelihood,
    make_optimizer,
    take_steps,
)
from fedse.train.order import FitOrder
from fedse.train.passes import FitBatches
from fedse.train.private_steps import private_steps
from fedse.train.role_loss import RoleLikelihood, SequenceBatches
from fedse.types import Adapter, AdapterSpec, Fitted, FloatVector

REMEMBERED = 4096
"""Lessons whose tokens are in memory at once, so that a buffer of that size is read only once."""


class Trainer:
    """Fits adapters on the process's base model, or in processes of their own.

    `beat` is called with every step.
    """

    def __init__(
        self,
        path: Path,
        spec: AdapterSpec,
        place: TrainerSection,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.spec, self.place, self._beat = path, spec, place, beat

    def fit(
        self,
        start: Adapter,
        lessons: Sequence[Tokenized],
        *,
        settings: TrainSection,
        context: int,
        seed: int,
        course: Course = Course(),  # noqa: B008  a value that nobody changes
        share: Share = Share(),  # noqa: B008  as above
    ) -> Fitted:
        """The adapter after as many passes over `lessons`, or as many steps, as `settings` say.

        Every turn of every lesson has its tokens. With `share` this process is one of several.
        """
        loss = loss_of(settings, warm=course.warm, alone=not course.round)
        kept: Sequence[Lesson] = Lazy(
            len(lessons),
            lambda place: lesson_of(lessons[place], context=context, origin=loss.origins),
            remembered=REMEMBERED,
        )
        if self.place.processes > 1:
            _require_open(course, self.place)
            order = self._order(start.spec, kept, settings, context, seed, course)
            return fit_in_processes(order, start, moments=course.moments, beat=self._beat)
        trained = loss.enters(start, course)
        model = self.model(trained.spec)
        load_adapter(model, trained)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(seed, "fit"))
            how = FitContext(self.place, share, context, settings.batch, self._beat, start.digest)
            told = RoleLikelihood() if len(kept) and kept[0].parts else None
            own = (loss, how, course, seed, told or likelihood)
            steps, moments = self._train(model, trained.spec, kept, *own)
        last = steps[-settings.steps_of_last_pass(lessons=len(kept), steps=len(steps)) :]
        made = loss.leaves(read_adapter(model, trained.spec), start)
        # One process of several knows its own share of the roles' gradients only.
        roles = told.figures(last=len(last)) if told and share.processes == 1 else {}
        return _fitted(made, steps, last, moments)._replace(roles=roles)

    def _train(
        self,
        model: Any,
        spec: AdapterSpec,
        kept: Sequence[Lesson],
        loss: Loss,
        how: FitContext,
        course: Course,
        seed: int,
        likely: Objective[Any],
    ) -> tuple[list[StepTaken], bytes | None]:
        """The model is trained; the steps, and what AdamW remembers if that is kept."""
        settings = loss.settings
        optimizer, keep = make_optimizer(model, settings), settings.optimizer == "kept"
        if keep and course.moments is not None:
            load_moments(course.moments, optimizer, model, spec)
        if course.private:
            own = (settings, self.place, course.arc, optimizer)
            taken = self._counted(private_steps(model, kept, course.private, *own))
        else:
            given = loss.prepare(model, kept, how)
            objective = loss.objective() or likely
            learnable = LearnableBatches(FitBatches(given, settings, seed=seed), how.context)
            batches = SequenceBatches(learnable)
            with at_rest(model, lambda name: not loss.learns(name, course)):
                options = (settings, self.place, how.share, course.arc, optimizer)
                taken = self._counted(take_steps(model, batches, *options, objective=objective))
        return taken, save_moments(optimizer, model, spec) if keep else None

    def _counted(self, steps: Iterable[StepTaken]) -> list[StepTaken]:
        """All steps, taken one after another, each with its beat."""
        taken = []
        for step in steps:
            taken.append(step)
            self._beat()
        return taken

    def _order(
        self,
        spec: AdapterSpec,
        lessons: Sequence[Lesson],
        settings: TrainSection,
        context: int,
        seed: int,
        course: Course,
    ) -> FitOrder:
        return FitOrder(
            base=self.path,
            spec=spec,
            place=self.place,
            settings=settings,
            context=context,
            seed=seed,
            lessons=tuple(lessons),
            arc=course.arc,
            round=course.round,
            warm=course.warm,
            site=course.site,
        )

    def model(self, spec: AdapterSpec | None = None) -> Any:
        """PEFT's model with the published weights; loaded when it is first needed."""
        device, precision = self.place.device, self.place.precision
        base = load_base(self.path, device=device, precision=precision)
        return adapted(base, spec or self.spec)


def _require_open(course: Course, place: TrainerSection) -> None:
    if course.private:
        raise TrainError(
            f"a private fit takes one process, trainer.processes is {place.processes}",
            hint="--set trainer.processes=1",
        )


def _fitted(
    adapter: Adapter,
    steps: Sequence[StepTaken],
    last: Sequence[StepTaken],
    moments: bytes | None,
) -> Fitted:
    return Fitted(
        adapter,
        loss=sum(step.loss for step in last) / len(last),
        steps=len(steps),
        tokens=sum(step.tokens for step in steps),
        padded=sum(step.padded for step in steps),
        moments=moments,
        longest=max(step.longest for step in steps),
    )


def trainer_for(
    path: Path,
    spec: AdapterSpec,
    place: TrainerSection | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Trainer:
    """A trainer on the base model of this process, which all clients share, one after another."""
    return Trainer(path, spec, place or TrainerSection(), beat)


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


class LearnableBatches(Generic[T]):
    """The same batches; each has a token to learn from, or the mean loss would be 0/0."""

    def __init__(self, batches: Batches[T], context: int) -> None:
        self._batches, self._context = batches, context

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Sequence[T]]:
        for batch in self._batches:
            if not learned_tokens(batch):
                raise TrainError(
                    f"no action of {len(batch)} episodes begins within rollout.context = "
                    f"{self._context} tokens, so there is nothing to learn from",
                    hint="--set rollout.context=N with a larger N: prompt and actions must fit",
                )
            yield batch
