"""What an adapter reveals about single episodes: their losses, and the steps they ask for."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fedse.train.batch import (
    IGNORED,
    Lesson,
    Tokenized,
    learned_tokens,
    lesson_of,
    make_batch,
    sequences_of,
)
from fedse.train.lora import Trainer, load_adapter
from fedse.train.optimise import agent_logits, batch_loss
from fedse.types import Adapter, AdapterSpec

MOST_TOKENS = 8192
"""Of the lessons that are computed together, padding included, unless the trainer takes fewer."""
CACHE_BYTES = 1 << 28
"""Of keys and values that are copied for continuations computed together."""
MOST_ROWS = 512

Floats = NDArray[np.float64]


class AdapterProbe:
    """Computes on the base model of a trainer; `beat` is called with every batch."""

    def __init__(
        self, trainer: Trainer, *, context: int, beat: Callable[[], None] = lambda: None
    ) -> None:
        self._trainer, self._context, self._beat = trainer, context, beat

    def losses(self, adapter: Adapter, lessons: Sequence[Tokenized]) -> Floats:
        """Of each lesson the mean loss of the tokens that are learned from, in nats."""
        cut = [self._cut(lesson) for lesson in lessons]
        rows = sequences_of(cut)
        model = self._model(adapter)
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place].token_ids))
        found = np.zeros(len(rows))
        with torch.no_grad():
            for places in self._groups(order, rows):
                found[places] = self._batch_losses(model, [rows[place] for place in places])
                self._beat()
        return _of_episodes(found, cut)

    def cosines(
        self, start: Adapter, replies: Sequence[Adapter], lessons: Sequence[Tokenized]
    ) -> Floats:
        """R x N: between a step from `start` to a reply and the step one lesson alone asks for."""
        model, found = self._model(start), np.zeros((len(replies), len(lessons)))
        steps = [reply.vector.astype(np.float64) - start.vector for reply in replies]
        units_R_P = np.stack([step / (np.linalg.norm(step) or 1.0) for step in steps])
        for place, lesson in enumerate(map(self._cut, lessons)):
            if not learned_tokens([lesson]):
                continue  # all of its actions lie beyond the context: it asks for no step
            model.zero_grad()
            batch = make_batch(sequences_of([lesson])).to(self._trainer.place.device)
            batch_loss(model, batch).backward()  # type: ignore[no-untyped-call]
            wanted = -read_gradient(model, start.spec)
            found[:, place] = units_R_P @ wanted / (np.linalg.norm(wanted) or 1.0)
            self._beat()
        model.zero_grad()
        return found

    def tail_losses(
        self, adapter: Adapter, head: Sequence[int], tails: Sequence[Sequence[int]]
    ) -> Floats:
        """Of each tail after the same head the loss of all its tokens, in nats.

        The head is computed once: its keys and values are copied for every tail.
        """
        model, device = self._model(adapter), self._trainer.place.device
        found = np.zeros(len(tails))
        with torch.no_grad():
            shown = model(input_ids=torch.tensor([list(head)], device=device), use_cache=True)
            rows = _rows_in(shown.past_key_values)
            for start in range(0, len(tails), rows):
                part = tails[start : start + rows]
                found[start : start + rows] = _continued(model, shown, part, device)
                self._beat()
        return found

    def _model(self, adapter: Adapter) -> Any:
        model = self._trainer.model(adapter.spec)
        load_adapter(model, adapter)
        model.eval()
        return model

    def _cut(self, lesson: Tokenized) -> Lesson:
        return lesson_of(lesson, context=self._context)

    def _groups(self, order: Sequence[int], rows: Sequence[Tokenized]) -> list[list[int]]:
        """Places of similar lengths, the longest first, as many as are computed together."""
        most, groups = self._trainer.place.max_tokens or MOST_TOKENS, list[list[int]]()
        for place in order:
            width = len(rows[groups[-1][0]].token_ids) if groups else 0
            if groups and (len(groups[-1]) + 1) * width <= most:
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    def _batch_losses(self, model: Any, lessons: Sequence[Tokenized]) -> Floats:
        batch = make_batch(lessons).to(self._trainer.place.device)
        labels_B_T = batch.labels_B_T[:, 1:]
        learned_B_T = labels_B_T != IGNORED
        losses_N = _losses(agent_logits(model, batch), labels_B_T[learned_B_T])
        summed_B = torch.zeros(len(lessons), device=losses_N.device, dtype=losses_N.dtype)
        summed_B.index_add_(0, learned_B_T.nonzero()[:, 0], losses_N)
        mean_B: Floats = (summed_B / learned_B_T.sum(1).clamp(min=1)).cpu().numpy()
        return mean_B


def _of_episodes(losses: Floats, lessons: Sequence[Lesson]) -> Floats:
    """The mean loss of each episode's tokens, from those of its conversations."""
    if not any(lesson.parts for lesson in lessons):
        return losses
    found, start = np.zeros(len(lessons)), 0
    for place, lesson in enumerate(lessons):
        tokens = [learned_tokens([one]) for one in sequences_of([lesson])]
        own = losses[start : start + len(tokens)]
        found[place] = own @ tokens / max(1, sum(tokens))
        start += len(tokens)
    return found


def read_gradient(model: Any, spec: AdapterSpec) -> Floats:
    """The gradient that the PEFT model holds, in the layout of `spec`; 0 where there is none."""
    grads = {
        name.replace(".default.", "."): parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    parts = [
        np.zeros(int(np.prod(tensor.shape)))
        if grads[tensor.name] is None
        else grads[tensor.name].detach().to("cpu", torch.float64).flatten().numpy()
        for tensor in spec.tensors
    ]
    return np.concatenate(parts)


def _losses(logits_N_V: Tensor, labels_N: Tensor) -> Tensor:
    """Negative log-likelihoods; as float64, so that sums of them can be compared."""
    return F.cross_entropy(logits_N_V.float(), labels_N, reduction="none").double()


def _continued(model: Any, shown: Any, tails: Sequence[Sequence[int]], device: str) -> Floats:
    """The losses of tails that follow what was `shown`."""
    longest, past = max(map(len, tails)), copy.deepcopy(shown.past_key_values)
    past.batch_repeat_interleave(len(tails))
    ids_B_T = torch.zeros(len(tails), longest, dtype=torch.long)
    for row, tail in enumerate(tails):
        ids_B_T[row, : len(tail)] = torch.tensor(tail)
    ids_B_T = ids_B_T.to(device)
    # The last token of a tail predicts nothing of it.
    later = model(input_ids=ids_B_T, past_key_values=past, use_cache=True).logits[:, :-1]
    first = shown.logits[:, -1:].expand(len(tails), -1, -1)
    logits_B_T_V = torch.cat([first, later], dim=1)
    losses_B_T = _losses(logits_B_T_V.flatten(0, 1), ids_B_T.flatten()).view_as(ids_B_T)
    lengths_B = torch.tensor([len(tail) for tail in tails], device=losses_B_T.device)
    real_B_T = torch.arange(longest, device=losses_B_T.device) < lengths_B[:, None]
    summed_B: Floats = torch.where(real_B_T, losses_B_T, 0).sum(1).cpu().numpy()
    return summed_B


def _rows_in(past: Any) -> int:
    """How many copies of these keys and values fit into the memory that is meant for them."""
    held: int = sum(layer.keys.nbytes + layer.values.nbytes for layer in past.layers)
    return max(1, min(MOST_ROWS, CACHE_BYTES // max(held, 1)))
