"""Evidence against "the first arm's rate exceeds the second's by no more than a margin".

It may be looked at after every session: where the statement is true, the evidence reaches 1 / alpha
with a probability of at most alpha, whenever one stops (Ville's inequality). It is the fortune of
gamblers who start with 1 and bet on the next block of outcomes in a game that is fair at the margin
and unfavourable below it.

A block ends as soon as both arms have an outcome in it. So only outcomes of the same time are
compared, and a day on which everything is harder is no evidence.
"""

from collections.abc import Hashable, Sequence
from operator import add
from typing import NamedTuple

BETS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""The share of its fortune that each gambler can lose in one block. Their mean is as good, but for
a factor of 5, as the best of them in hindsight. Of 100 regressions of 10 points they find 95 within
532 blocks; bets that follow the outcomes need 564 (docs/results/canary.json)."""


class Block(NamedTuple):
    """Outcomes of the same time, at least one of each arm: how many, and how many were true."""

    first: int
    firsts: int
    second: int
    seconds: int


def fortunes_after(
    fortunes: Sequence[float], block: Block, *, margin: float, bets: Sequence[float] = BETS
) -> list[float]:
    """What each gambler has after the block; never less than nothing."""
    ahead = block.first / block.firsts - block.second / block.seconds - margin
    # Its precision, by the sizes alone: 1/2 for one against one, almost 1 for one against many.
    weight = block.firsts * block.seconds / (block.firsts + block.seconds)
    gain = ahead * min(weight, 1.0) / (1 + margin)
    return [fortune * (1 + bet * gain) for fortune, bet in zip(fortunes, bets, strict=True)]


class Evidence:
    """The evidence of all outcomes that were added, in their order."""

    def __init__(self, margin: float, *, bets: Sequence[float] = BETS) -> None:
        """`margin` in (-1, 1]; at 1 there is never evidence."""
        if not -1 < margin <= 1 or not all(0 < bet < 1 for bet in bets):
            raise ValueError(f"expected -1 < margin <= 1 and bets in (0, 1), got {margin}, {bets}")
        self.value, self._margin, self._bets = 1.0, margin, bets
        self._fortunes = [1.0 for _ in bets]
        self._open: dict[Hashable, list[int]] = {}
        self._closed = Block(0, 0, 0, 0)

    @property
    def counts(self) -> Block:
        """All outcomes, those of open blocks included."""
        return Block(*map(sum, zip(self._closed, *self._open.values(), strict=True)))

    def add(self, outcome: bool, *, first: bool, stratum: Hashable = None) -> None:
        """The outcome counts for its arm; only outcomes of the same stratum are in one block."""
        block = self._open.get(stratum)
        if block is None:
            block = self._open[stratum] = [0, 0, 0, 0]
        at = 0 if first else 2
        block[at] += outcome
        block[at + 1] += 1
        if block[1] and block[3]:
            closed = Block(*self._open.pop(stratum))
            self._closed = Block(*map(add, self._closed, closed))
            self._fortunes = fortunes_after(
                self._fortunes, closed, margin=self._margin, bets=self._bets
            )
            self.value = sum(self._fortunes) / len(self._bets)
