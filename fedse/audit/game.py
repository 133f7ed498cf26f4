"""The membership game: adapters that learned from known halves of a site's lessons.

Each half is learned from exactly as the site learns from all, and so is its complement. Of the
first two adapters every lesson is in one and not in the other: they are attacked. The others are
the attacker's own, made to find out how an adapter that knows a lesson differs from one that does
not. They are drawn apart from the first two, or the number of those that know a lesson would tell.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedse.audit.scores import Floats
from fedse.config.training import TrainSection
from fedse.seeds import seed_of
from fedse.types import Adapter, Trajectory

TARGETS = 2
"""Adapters that are attacked: a half of the lessons and its complement."""

Learn = Callable[[Sequence[Trajectory], TrainSection, int], Adapter]
"""Lessons, settings, seed -> the reply that a site would send, from the adapter it was sent."""
Tell = Callable[[str], None]


class Probe(Protocol):
    """What an attacker with the base model computes."""

    def losses(self, adapter: Adapter, lessons: Sequence[Trajectory]) -> Floats:
        """Of each lesson the mean loss of the tokens that are learned from, in nats."""
        ...

    def cosines(
        self, start: Adapter, replies: Sequence[Adapter], lessons: Sequence[Trajectory]
    ) -> Floats:
        """R x N: between a step from `start` to a reply and the step one lesson alone asks for."""
        ...

    def tail_losses(
        self, adapter: Adapter, head: Sequence[int], tails: Sequence[Sequence[int]]
    ) -> Floats:
        """Of each tail after the same head the loss of all its tokens, in nats."""
        ...


class AuditSubject(NamedTuple):
    """What is audited: an adapter that was sent to a site, and how the site learns from it."""

    start: Adapter
    pool: Sequence[Trajectory]
    """The site's lessons, each with its tokens."""
    settings: TrainSection
    learn: Learn
    probe: Probe
    tokenized: Callable[[Trajectory], Trajectory]
    """The tokens of an episode, in the words of the site's chat template."""
    unprotected: Learn | None = None
    """As `learn`, without noise or whatever else is there to protect; None = nothing is."""

    def learn_openly(
        self, lessons: Sequence[Trajectory], settings: TrainSection, seed: int
    ) -> Adapter:
        """What a control learns: a protection that works must not make the attacks look broken."""
        return (self.unprotected or self.learn)(lessons, settings, seed)


class HalfReplies(NamedTuple):
    """The adapters of a game, and who is a member of which."""

    replies: tuple[Adapter, ...]
    members: NDArray[np.bool_]
    """R x N: whether the reply learned from the lesson."""


def draw_halves(count: int, pairs: int, *, seed: int) -> NDArray[np.bool_]:
    """2 x pairs rows over `count` lessons, an even number: a random half, then its complement."""
    if count % 2:
        raise ValueError(f"expected an even number of lessons, got {count}")
    rows = np.zeros((2 * pairs, count), dtype=bool)
    for pair in range(pairs):
        order = np.random.default_rng(seed_of(seed, "half", pair)).permutation(count)
        rows[2 * pair, order[: count // 2]] = True
        rows[2 * pair + 1] = ~rows[2 * pair]
    return rows


def play_game(subject: AuditSubject, *, shadows: int, seed: int, tell: Tell) -> HalfReplies:
    """Two targets and `shadows` more, an even number, each after learning from its half."""
    members = draw_halves(len(subject.pool), (TARGETS + shadows) // 2, seed=seed)
    replies = []
    for number, row in enumerate(members):
        tell(f"learning from half of the lessons, {number + 1} of {len(members)}")
        half = [subject.pool[place] for place in np.flatnonzero(row).tolist()]
        replies.append(subject.learn(half, subject.settings, seed_of(seed, "reply", number)))
    return HalfReplies(tuple(replies), members)
