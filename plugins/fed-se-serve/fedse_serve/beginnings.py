"""Prompts that begin as earlier ones did are computed from where they differ.

A service sends the whole conversation with every turn, and all conversations begin with the same
instructions. So keys and values of rows are kept, and a new row starts from the longest beginning
that it shares with one of them. What several new rows share is computed once before.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor
from transformers import DynamicCache

from fedse.agent.hf import Begun, Engine, Ids, common_prefix, forward, left_padded

WORTH = 16
"""Tokens that several rows must share to be computed apart from them."""


class Remembered:
    """Keys and values of rows that one adapter has computed, the ones used last."""

    def __init__(self, *, tokens: int) -> None:
        """At most so many tokens are kept; a model of 0.5B needs 25 kB for each."""
        self._room = tokens
        self._rows: OrderedDict[Ids, list[tuple[Tensor, Tensor]]] = OrderedDict()

    def begin(self, rows: Sequence[Ids], engine: Engine) -> Begun:
        for shared in shared_beginnings(sorted(rows)):
            begun = self._begun([(*shared, shared[-1])])  # one more, because a row has to go on
            if len(shared) - begun.read[0] >= WORTH:
                block = left_padded([shared[begun.read[0] :]])
                attention = torch.cat([begun.attention_B_T, block.attention_B_T], dim=1)
                forward(engine, block, attention, begun.cache)
                self.keep([shared], begun.cache, attention)
        return self._begun(rows)

    def keep(self, rows: Sequence[Ids], cache: DynamicCache, attention_B_T: Tensor) -> None:
        """The rows are known; the ones that they continue need not be any more."""
        for place, row in enumerate(rows):
            computed = attention_B_T[place].bool()
            self._rows[row] = [
                (layer.keys[place][:, computed].clone(), layer.values[place][:, computed].clone())
                for layer in cache.layers
            ]
            for shorter in [one for one in self._rows if one != row and row[: len(one)] == one]:
                # What other conversations begin with too stays.
                if sum(one[: len(shorter)] == shorter for one in self._rows) <= 2:
                    del self._rows[shorter]
        while len(self._rows) > 1 and sum(map(len, self._rows)) > self._room:
            self._rows.popitem(last=False)

    def _begun(self, rows: Sequence[Ids]) -> Begun:
        """The longest known beginning of each row, in one cache that is filled from the right."""
        found = [self._longest(row) for row in rows]
        read = [length for _, length in found]
        cache, longest = DynamicCache(), max(read)
        if longest:
            any_row = next(row for row, length in found if length)
            for layer, pair in enumerate(self._rows[any_row]):
                keys, values = (
                    one.new_zeros(len(rows), one.shape[0], longest, one.shape[2]) for one in pair
                )
                for place, (row, length) in enumerate(found):
                    if length:
                        known = self._rows[row][layer]
                        keys[place, :, longest - length :] = known[0][:, :length]
                        values[place, :, longest - length :] = known[1][:, :length]
                cache.update(keys, values, layer)
        attention = torch.zeros(len(rows), longest, dtype=torch.long)
        for place, length in enumerate(read):
            attention[place, longest - length :] = 1
        return Begun(cache, attention, read)

    def _longest(self, row: Ids) -> tuple[Ids, int]:
        """The known row that shares most with this one, and how much, less than the whole."""
        best: Ids = ()
        length = 0
        for known in self._rows:
            # Only a row that shares more than the best one so far is compared token by token.
            if known[:length] == row[:length] and len(known) > length:
                shared = common_prefix([row, (*known, -1)])
                if shared > length:
                    best, length = known, shared
        if best:
            self._rows.move_to_end(best)
        return best, length


def shared_beginnings(rows: Sequence[Ids], known: int = 0) -> Iterator[Ids]:
    """What at least two of the sorted rows begin with, the shorter before what continues it."""
    if len(rows) < 2:
        return
    length = common_prefix(rows)
    if length - known >= WORTH:
        yield rows[0][:length]
        known = length
    groups = [[*group] for _, group in groupby(rows, key=lambda row: row[length])]
    if len(groups) > 1:
        for group in groups:
            yield from shared_beginnings(group, known)
