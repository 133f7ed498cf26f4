"""In-process policy on transformers: merged weights, batched sampling, tokens recorded as drawn.

Between two turns the keys and values of all open episodes stay in memory, so a turn costs only
its new tokens. The trainer uses the same model object, one of the two at a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from fedse.agent.loaded import load_base
from fedse.agent.policy import Dialogue, Reply
from fedse.agent.prompt import tokens_so_far
from fedse.types import Adapter, AdapterSpec

Ids = tuple[int, ...]


class Engine:
    """The process's base model for generating: adapters are merged into its weights."""

    def __init__(self, path: Path, spec: AdapterSpec, *, device: str, precision: str) -> None:
        self._base = load_base(path, device=device, precision=precision)
        self.encoder, self.eos_id = self._base.encoder, self._base.tokenizer.eos_token_id
        self.model, self.spec, self.device = self._base.model, spec, device

    def merge(self, adapter: Adapter) -> None:
        """The model computes with W + scaling * B A, until somebody trains or merges another."""
        self._base.merge(adapter)


def engine_for(
    path: Path, spec: AdapterSpec, *, device: str = "cpu", precision: str = "float32"
) -> Engine:
    """An engine on the base model of this process, which all clients share, one after another."""
    return Engine(path, spec, device=device, precision=precision)


class _Memory(NamedTuple):
    """Keys and values of earlier turns; row i belongs to the episode whose tokens are rows[i]."""

    rows: list[Ids]
    cache: Any
    attention_B_T: Tensor


class HFPolicy:
    """Samples from one adapter at one temperature; temperature 0 takes the likeliest token."""

    def __init__(
        self,
        engine: Engine,
        adapter: Adapter,
        *,
        temperature: float,
        context: int,
        new_tokens: int,
        to_the_end: bool = False,
    ) -> None:
        self.name, self._to_the_end = adapter.digest, to_the_end
        self._engine, self._adapter = engine, adapter
        self._temperature, self._context, self._new_tokens = temperature, context, new_tokens
        self._memory: _Memory | None = None

    @torch.inference_mode()
    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One sampled reply per dialogue; None where prompt and answer would exceed the context."""
        self._engine.merge(self._adapter)
        past = [tokens_so_far(dialogue) for dialogue in dialogues]
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
            if not self._to_the_end:
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
        device = self._engine.device
        output = self._engine.model(
            input_ids=block.ids_B_T.to(device),
            attention_mask=attention_B_T.to(device),
            position_ids=positions_B_T[:, -block.ids_B_T.shape[1] :].to(device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        # Tokens are drawn here on the CPU, so a seed means the same on every device.
        logits_B_V: Tensor = output.logits[:, -1].cpu()
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
        self._memory.cache.batch_select_indices(torch.tensor(keep, device=self._engine.device))
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
