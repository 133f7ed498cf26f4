"""In-process policy on transformers: merged weights, batched sampling, tokens recorded as drawn.

Between two turns the keys and values of all open episodes stay in memory, so a turn costs only
its new tokens. Model and trainer share one process; rollouts on an inference server are not built.
"""

import copy
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from fedse.agent.loaded import load_base
from fedse.agent.policy import Dialogue, Reply
from fedse.types import Adapter, AdapterSpec

Ids = tuple[int, ...]


class Engine:
    """The base model with an adapter merged into its weights; one per process."""

    def __init__(self, path: Path, spec: AdapterSpec) -> None:
        base = load_base(path)
        self.encoder, self.eos_id = base.encoder, base.tokenizer.eos_token_id
        self.spec = spec
        self.model = copy.deepcopy(base.model)
        pristine = dict(base.model.named_parameters())
        modules = {t.name.rpartition(".lora_")[0] for t in spec.tensors}
        self._targets = {
            stem: (
                self.model.get_parameter(_weight_name(stem)),
                pristine[_weight_name(stem)],
            )
            for stem in sorted(modules)
        }
        self._merged = ""

    @torch.no_grad()
    def merge(self, adapter: Adapter) -> None:
        """The model computes with W + scaling * B A, always from the pristine W."""
        if self._merged == adapter.digest:
            return
        tensors = {name: torch.from_numpy(t.copy()) for name, t in adapter.tensors().items()}
        for stem, (weight, pristine) in self._targets.items():
            a, b = tensors[f"{stem}.lora_A.weight"], tensors[f"{stem}.lora_B.weight"]
            weight.copy_(pristine + self.spec.scaling * (b @ a))
        self._merged = adapter.digest


@lru_cache(maxsize=2)
def engine_for(path: Path, spec: AdapterSpec) -> Engine:
    """The engine of this process; all clients of a process share it, one after another."""
    return Engine(path, spec)


def _weight_name(stem: str) -> str:
    return stem.removeprefix("base_model.model.") + ".weight"


class _Memory(NamedTuple):
    """Keys and values of earlier turns; row i belongs to the episode whose tokens are rows[i]."""

    rows: list[Ids]
    cache: Any
    attention_B_T: Tensor


class HFPolicy:
    """Samples from one adapter at one temperature; temperature 0 takes the likeliest token."""

    def __init__(
        self, engine: Engine, adapter: Adapter, *, temperature: float, context: int, new_tokens: int
    ) -> None:
        self.name = adapter.digest
        self._engine, self._adapter = engine, adapter
        self._temperature, self._context, self._new_tokens = temperature, context, new_tokens
        self._memory: _Memory | None = None

    @torch.inference_mode()
    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One sampled reply per dialogue; None where prompt and answer would exceed the context."""
        self._engine.merge(self._adapter)
        past = [_tokens_so_far(dialogue) for dialogue in dialogues]
        given = [self._engine.encoder.context(dialogue) for dialogue in dialogues]
        room = self._context - self._new_tokens
        fits = [i for i in range(len(past)) if len(past[i]) + len(given[i]) <= room]
        replies: list[Reply | None] = [None] * len(dialogues)
        if not fits:
            return replies
        drawn = self._sample([past[i] for i in fits], [given[i] for i in fits], seed=seed)
        for i, action in zip(fits, drawn, strict=True):
            replies[i] = Reply(self._engine.encoder.text(action), given[i], action)
        return replies

    def _sample(self, past: list[Ids], given: list[Ids], *, seed: int) -> list[Ids]:
        memory = self._recall(past)
        if memory is None:
            given_now = [p + g for p, g in zip(past, given, strict=True)]
            cache, attention = DynamicCache(), torch.zeros(len(past), 0, dtype=torch.long)
        else:
            given_now, cache, attention = given, memory.cache, memory.attention_B_T
        random = torch.Generator().manual_seed(seed)
        block = _left_padded(given_now)
        drawn: list[list[int]] = [[] for _ in past]
        unfinished = torch.ones(len(past), dtype=torch.bool)
        for _ in range(self._new_tokens):
            attention = torch.cat([attention, block.attention_B_T], dim=1)
            logits_B_V = self._forward(block, attention, cache)
            token_B = self._draw(logits_B_V, random)
            for row in unfinished.nonzero().flatten().tolist():
                drawn[row].append(int(token_B[row]))
            # A row's last token is fed too, or its keys would be missing in the next turn.
            block = _Block(token_B[:, None], unfinished[:, None].long())
            unfinished = unfinished & (token_B != self._engine.eos_id)
            if not unfinished.any():
                break
        attention = torch.cat([attention, block.attention_B_T], dim=1)
        self._forward(block, attention, cache)
        actions = [tuple(ids) for ids in drawn]
        rows = [p + g + a for p, g, a in zip(past, given, actions, strict=True)]
        self._memory = _Memory(rows, cache, attention)
        return actions

    def _forward(self, block: "_Block", attention_B_T: Tensor, cache: Any) -> Tensor:
        positions_B_T = (attention_B_T.cumsum(dim=1) - 1).clamp(min=0)
        output = self._engine.model(
            input_ids=block.ids_B_T,
            attention_mask=attention_B_T,
            position_ids=positions_B_T[:, -block.ids_B_T.shape[1] :],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits_B_V: Tensor = output.logits[:, -1]
        return logits_B_V

    def _draw(self, logits_B_V: Tensor, random: torch.Generator) -> Tensor:
        if self._temperature == 0:
            return logits_B_V.argmax(dim=-1)
        chances_B_V = torch.softmax(logits_B_V.double() / self._temperature, dim=-1)
        return torch.multinomial(chances_B_V, 1, generator=random)[:, 0]

    def _recall(self, past: list[Ids]) -> _Memory | None:
        """The memory cut down to these episodes, or None if one of them is not in it."""
        if self._memory is None:
            return None
        where = {row: i for i, row in enumerate(self._memory.rows)}
        if any(row not in where for row in past):
            return None
        keep = [where[row] for row in past]
        if keep == list(range(len(self._memory.rows))):
            return self._memory
        self._memory.cache.batch_select_indices(torch.tensor(keep))
        return _Memory(past, self._memory.cache, self._memory.attention_B_T[keep])


class _Block(NamedTuple):
    ids_B_T: Tensor
    attention_B_T: Tensor


def _left_padded(rows: Sequence[Ids]) -> _Block:
    width = max(len(row) for row in rows)
    ids_B_T = torch.zeros(len(rows), width, dtype=torch.long)
    attention_B_T = torch.zeros_like(ids_B_T)
    for i, row in enumerate(rows):
        ids_B_T[i, width - len(row) :] = torch.tensor(row)
        attention_B_T[i, width - len(row) :] = 1
    return _Block(ids_B_T, attention_B_T)


def _tokens_so_far(dialogue: Dialogue) -> Ids:
    return tuple(i for turn in dialogue.turns for i in (*turn.context_ids, *turn.action_ids))
