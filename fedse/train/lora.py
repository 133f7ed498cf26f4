"""Fine-tune a LoRA adapter on trajectories: the paper's local step, with PEFT and AdamW."""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from fedse.agent.loaded import load_base
from fedse.config.schema import TrainSection
from fedse.errors import TrainError
from fedse.seeds import seed_of
from fedse.train.batch import IGNORED, Batch, agent_loss, make_batch
from fedse.types import Adapter, AdapterSpec, Fitted, FloatVector, Trajectory


class Trainer:
    """A base model with room for one adapter; holds no state between two fits but the weights."""

    def __init__(self, path: Path, spec: AdapterSpec) -> None:
        self.spec = spec
        # PEFT wraps the layers in place, and generation needs the base unwrapped.
        self._model = get_peft_model(copy.deepcopy(load_base(path).model), lora_config(spec))

    def fit(
        self,
        start: Adapter,
        lessons: Sequence[Trajectory],
        *,
        settings: TrainSection,
        context: int,
        seed: int,
    ) -> Fitted:
        """The adapter after `settings.epochs` passes over `lessons`, from a fresh optimiser.

        Every turn of every lesson has its tokens.
        """
        load_adapter(self._model, start)
        batches = list(_batches(lessons, settings, seed=seed))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(seed, "fit"))
            losses = list(_optimise(self._model, batches, settings=settings, context=context))
        last_epoch = losses[-max(1, math.ceil(len(losses) / settings.epochs)) :]
        loss = sum(last_epoch) / len(last_epoch)
        return Fitted(read_adapter(self._model, self.spec), loss, len(losses))


@lru_cache(maxsize=2)
def trainer_for(path: Path, spec: AdapterSpec) -> Trainer:
    """The trainer of this process; all clients of a process share it, one after another."""
    return Trainer(path, spec)


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
        values = state[tensor.name].detach().to(torch.float32)
        if tuple(values.shape) != tensor.shape:
            raise TrainError(f"{tensor.name} has shape {tuple(values.shape)}, not {tensor.shape}")
        parts.append(values.reshape(-1).numpy())
    vector = torch.cat([torch.from_numpy(part) for part in parts]).numpy()
    return Adapter(spec, vector)


def _batches(
    episodes: Sequence[Trajectory], settings: TrainSection, *, seed: int
) -> Iterator[list[Trajectory]]:
    count = 0
    for epoch in range(settings.epochs):
        order = list(episodes)
        Random(seed_of(seed, "epoch", epoch)).shuffle(order)
        for start in range(0, len(order), settings.batch):
            if settings.max_steps is not None and count >= settings.max_steps:
                return
            count += 1
            yield order[start : start + settings.batch]


def _optimise(
    model: Any, batches: Sequence[list[Trajectory]], *, settings: TrainSection, context: int
) -> Iterator[float]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamW(parameters, lr=settings.lr, weight_decay=0.0)
    # Cosine to zero without warm-up, as published.
    schedule = LambdaLR(optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / len(batches))))
    model.train()
    for episodes in batches:
        batch = make_batch(episodes, context=context)
        _require_own_tokens(batch, context)
        logits = model(input_ids=batch.ids_B_T, attention_mask=batch.attention_B_T).logits
        loss = agent_loss(logits, batch.labels_B_T)
        if not torch.isfinite(loss):
            raise TrainError("training loss is not finite", hint="lower train.lr")
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield loss.item()
    model.eval()


def _require_own_tokens(batch: Batch, context: int) -> None:
    """There is a token to learn from; without one the mean loss would be 0/0."""
    if not bool((batch.labels_B_T[:, 1:] != IGNORED).any()):
        raise TrainError(
            f"no action of {len(batch.labels_B_T)} episodes begins within rollout.context = "
            f"{context} tokens, so there is nothing to learn from",
            hint="--set rollout.context=N with a larger N: prompt and actions must fit",
        )
