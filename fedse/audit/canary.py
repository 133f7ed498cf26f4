"""Canaries: made-up secrets in made-up episodes, and how much of one the reply gives away.

The attacker knows all but the code: the episode, the sentence and what codes look like. It ranks
random codes by how much more likely the reply made them than the adapter that was sent. A secret
that it ranks first of 4,096 is exposed by 12 bits (exposure, Carlini 2019); one of which the reply
knows nothing is exposed by 1.4 bits on average, by chance.
"""

from collections.abc import Callable, Sequence
from math import log2
from typing import Literal, NamedTuple, get_args

import numpy as np

from fedse.audit.game import Probe
from fedse.audit.scores import Floats
from fedse.seeds import seed_of
from fedse.types import Adapter, Trajectory

Place = Literal["typed", "seen"]
"""In what the agent types, or in what it is shown."""
PLACES: tuple[Place, ...] = get_args(Place)
SYMBOLS = "0123456789abcdef"
LENGTH = 8
"""Characters of a code: 32 bits."""
CANDIDATES = 4096


class Canary(NamedTuple):
    """A secret, and the episode whose first turn carries it."""

    place: Place
    carrier: Trajectory
    number: int
    code: str

    def episode(self, code: str | None = None) -> Trajectory:
        """The carrier's first turn with the secret at the end of a text, or with another code."""
        sentence = f"The access code of door {self.number} is {code or self.code}"
        turn = self.carrier.turns[0]
        text = {"typed": "action", "seen": "observation"}[self.place]
        words = {text: f"{getattr(turn, text)} {sentence}", "context_ids": (), "action_ids": ()}
        planted = turn.model_copy(update={**words, "learned": True})
        return self.carrier.model_copy(update={"turns": (planted,)})


def make_canaries(
    pool: Sequence[Trajectory], place: Place, count: int, *, seed: int
) -> list[Canary]:
    """So many secrets, each with its own code and episode; short ones, so nothing is cut off."""
    carriers = sorted(pool, key=lambda lesson: len(lesson.turns[0].context_ids))[:count]
    codes = random_codes(count, seed=seed_of(seed, "canary", place))
    return [
        Canary(place, carriers[number % len(carriers)], number, code)
        for number, code in enumerate(codes)
    ]


def random_codes(count: int, *, seed: int) -> list[str]:
    """Different codes; any is as likely as any other."""
    random, codes = np.random.default_rng(seed), dict[str, None]()
    while len(codes) < count:
        drawn = random.integers(len(SYMBOLS), size=(count, LENGTH))
        codes.update(dict.fromkeys("".join(SYMBOLS[i] for i in row) for row in drawn))
    return list(codes)[:count]


def exposure(rank: float, candidates: int) -> float:
    """Bits that the reply takes off the search for a secret; 0 for the one ranked last."""
    return log2(candidates) - log2(rank)


def rank_of_first(scores: Floats) -> float:
    """The place of the first score among all, the lowest having 1; equal ones share places."""
    lower, equal = (scores < scores[0]).sum(), (scores == scores[0]).sum()
    return float(1 + lower + (equal - 1) / 2)


def exposed_bits(
    canary: Canary,
    start: Adapter,
    reply: Adapter,
    probe: Probe,
    tokenized: Callable[[Trajectory], Trajectory],
    *,
    candidates: int,
    seed: int,
) -> float:
    """The exposure of a canary among `candidates` codes, its own included."""
    others = random_codes(candidates, seed=seed_of(seed, "candidates", canary.number))
    codes = [canary.code, *(code for code in others if code != canary.code)][:candidates]
    head, tails = parted_tokens([tokenized(canary.episode(code)).token_ids for code in codes])
    after, before = (probe.tail_losses(adapter, head, tails) for adapter in (reply, start))
    return exposure(rank_of_first(after - before), candidates)


def parted_tokens(rows: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """What all rows begin with, and what is left of each without a common end."""
    head = _common(rows)
    rest = [row[head:] for row in rows]
    end = _common([row[::-1] for row in rest])
    return rows[0][:head], [row[: len(row) - end] for row in rest]


def _common(rows: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all rows begin with; every row keeps at least one after them."""
    shortest = min(map(len, rows)) - 1
    differ = (place for place in range(shortest) if len({row[place] for row in rows}) > 1)
    return next(differ, max(shortest, 0))
