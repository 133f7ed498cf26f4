"""In-process policy on transformers: merged weights, batched sampling, tokens recorded as drawn.

Between two turns the keys and values of all open episodes stay in memory, so a turn costs only
its new tokens. The trainer uses the same model object, one of the two at a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from fedse.agent.loaded import load_base
from fedse.agent.policy import DECIMALS, Dialogue, Reply
from fedse.agent.prompt import tokens_so_far
from fedse.agent.shape import Shape, ShapeKeeper
from fedse.types import Adapter, AdapterSpec

Ids = tuple[int, ...]
LogChances = tuple[float, ...]


class Engine:
    """The process's base model for generating: adapters are merged into its weights."""

    def __init__(self, path: Path, spec: AdapterSpec, *, device: str, precision: str) -> None:
        self._base = load_base(path, device=device, precision=precision)
        self.encoder, self.eos_id = self._base.encoder, self._base.tokenizer.eos_token_id
        self.tokenizer = self._base.tokenizer
        self.width = int(self._base.model.get_output_embeddings().weight.shape[0])
        """How many tokens the model tells apart; may be more than the tokenizer knows."""
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


class Begun(NamedTuple):
    """A cache in which the first `read[i]` tokens of row i are computed already, and its mask."""

    cache: DynamicCache
    attention_B_T: Tensor
    read: Sequence[int]


class Beginnings(Protocol):
    """What earlier batches have computed, for rows that begin as one of theirs did."""

    def begin(self, rows: Sequence[Ids], engine: Engine) -> Begun: ...

    def keep(self, rows: Sequence[Ids], cache: DynamicCache, attention_B_T: Tensor) -> None: ...


class HFPolicy:
    """Samples from one adapter at one temperature; temperature 0 takes the likeliest token.

    With `log_chances` a reply has those of its tokens, unless it had to keep a shape: then it was
    drawn from another distribution than the model's.
    """

    keeps_shapes = True

    def __init__(
        self,
        engine: Engine,
        adapter: Adapter,
        *,
        temperature: float,
        context: int,
        new_tokens: int,
        to_the_end: bool = False,
        log_chances: bool = False,
        shared_prefix: bool = False,
        beginnings: Beginnings | None = None,
    ) -> None:
        self.name, self._to_the_end, self._told = adapter.digest, to_the_end, log_chances
        self._shared_prefix, self._beginnings = shared_prefix, beginnings
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
        shapes = [dialogues[i].shape for i in fits]
        drawn = self._sample([past[i] for i in fits], [given[i] for i in fits], shapes, seed=seed)
        for i, action, chances in zip(fits, *drawn, strict=True):
            replies[i] = Reply(self._engine.encoder.text(action), given[i], action, chances)
        return replies

    def _sample(
        self, past: list[Ids], given: list[Ids], shapes: list[Shape | None], *, seed: int
    ) -> tuple[list[Ids], list[LogChances]]:
        memory = self._recall(past)
        if memory is None:
            given_now = [p + g for p, g in zip(past, given, strict=True)]
            known = self._beginnings
            begun = known.begin(given_now, self._engine) if known else self._begin(given_now)
            cache, attention = begun.cache, begun.attention_B_T
            given_now = [row[n:] for row, n in zip(given_now, begun.read, strict=True)]
        else:
            given_now, cache, attention = given, memory.cache, memory.attention_B_T
        random = torch.Generator().manual_seed(seed)
        keeper = ShapeKeeper(self._engine.tokenizer, self._engine.width, shapes)
        drawn = _Drawn(keeper, len(past), self._new_tokens)
        block = left_padded([(*g, *d) for g, d in zip(given_now, drawn.ids, strict=True)])
        end = None if self._to_the_end else self._engine.eos_id
        while drawn.unfinished.any():
            attention = torch.cat([attention, block.attention_B_T], dim=1)
            logits_B_V = forward(self._engine, block, attention, cache)
            for row, allowed_V in keeper.allowed().items():
                logits_B_V[row, torch.from_numpy(~allowed_V)] = -torch.inf
            token_B = self._draw(logits_B_V, random)
            if self._told:
                drawn.note(log_chances_of(token_B, logits_B_V))
            block = drawn.take(token_B, end)
        # A row's last token is fed too, or its keys would be missing in the next turn.
        attention = torch.cat([attention, block.attention_B_T], dim=1)
        forward(self._engine, block, attention, cache)
        actions = [tuple(ids) for ids in drawn.ids]
        rows = [p + g + a for p, g, a in zip(past, given, actions, strict=True)]
        if self._beginnings:
            self._beginnings.keep(rows, cache, attention)
        else:
            self._memory = _Memory(rows, cache, attention)
        chances = zip(drawn.log_chances, shapes, strict=True)
        return actions, [() if shape else tuple(own) for own, shape in chances]

    def _begin(self, rows: list[Ids]) -> Begun:
        cache, shared = DynamicCache(), common_prefix(rows) if self._shared_prefix else 0
        if shared:
            first = left_padded([rows[0][:shared]])
            forward(self._engine, first, first.attention_B_T, cache)
            cache.batch_repeat_interleave(len(rows))
        read = [shared] * len(rows)
        return Begun(cache, torch.ones(len(rows), shared, dtype=torch.long), read)

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


def forward(engine: Engine, block: "Block", attention_B_T: Tensor, cache: DynamicCache) -> Tensor:
    """The logits after the block's last tokens; the cache has the block's keys and values too."""
    positions_B_T = (attention_B_T.cumsum(dim=1) - 1).clamp(min=0)
    output = engine.model(
        input_ids=block.ids_B_T.to(engine.device),
        attention_mask=attention_B_T.to(engine.device),
        position_ids=positions_B_T[:, -block.ids_B_T.shape[1] :].to(engine.device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=_last_of(block, engine.model.dtype),
    )
    # Tokens are drawn here on the CPU, so a seed means the same on every device.
    logits_B_V: Tensor = output.logits[:, -1].cpu()
    return logits_B_V


def _last_of(block: "Block", precision: torch.dtype) -> int | Tensor:
    """Which of the block's tokens logits are wanted of: the last ones.

    Given a number, transformers passes a slice to the output layer, and torch multiplies each row
    of it separately: in bfloat16 with a copy of the whole layer per row, forty times as slow. In
    float32 that costs little, and digests on record depend on its bits.
    """
    width = block.ids_B_T.shape[1]
    return 1 if precision == torch.float32 else torch.tensor([width - 1])


def common_prefix(rows: Sequence[Ids]) -> int:
    """How many first tokens all rows share, each with at least one more of its own."""
    longest = min(map(len, rows)) - 1
    columns = zip(*(row[:longest] for row in rows), strict=True)
    return next((i for i, column in enumerate(columns) if len({*column}) > 1), longest)


class _Drawn:
    """The tokens of several replies so far; those that a shape forces are not waited for."""

    def __init__(self, keeper: ShapeKeeper, rows: int, most: int) -> None:
        self._keeper, self._most = keeper, most
        self.ids: list[list[int]] = [[*keeper.forced(row)[:most]] for row in range(rows)]
        self.log_chances: list[list[float]] = [[] for _ in range(rows)]
        """Of what was drawn, not of what a shape forced; none unless they are noted."""
        self.unfinished = torch.tensor([len(ids) < most for ids in self.ids])

    def note(self, chances_B: Tensor) -> None:
        """The log-probability of the token that each unfinished row is about to take."""
        for row in self.unfinished.nonzero().flatten().tolist():
            self.log_chances[row].append(round(float(chances_B[row]), DECIMALS))

    def take(self, token_B: Tensor, end: int | None) -> "Block":
        """Each unfinished row has its token and what follows from it; `end` ends a row."""
        block = Block(token_B[:, None], self.unfinished[:, None].long())
        new: list[Ids] = [()] * len(self.ids)
        for row in self.unfinished.nonzero().flatten().tolist():
            token = int(token_B[row])
            self._keeper.take(row, token)
            forced = () if token == end else self._keeper.forced(row)
            new[row] = (token, *forced)[: self._most - len(self.ids[row])]
            self.ids[row] += new[row]
            self.unfinished[row] = token != end and len(self.ids[row]) < self._most
        return left_padded(new) if max(map(len, new)) > 1 else block


def log_chances_of(token_B: Tensor, logits_B_V: Tensor) -> Tensor:
    """Of each row's token, at temperature 1."""
    return torch.log_softmax(logits_B_V.double(), dim=-1).gather(1, token_B[:, None])[:, 0]


class Block(NamedTuple):
    ids_B_T: Tensor
    attention_B_T: Tensor


def left_padded(rows: Sequence[Ids]) -> Block:
    width = max(len(row) for row in rows)
    ids_B_T = torch.zeros(len(rows), width, dtype=torch.long)
    attention_B_T = torch.zeros_like(ids_B_T)
    for i, row in enumerate(rows):
        ids_B_T[i, width - len(row) :] = torch.tensor(row)
        attention_B_T[i, width - len(row) :] = 1
    return Block(ids_B_T, attention_B_T)
